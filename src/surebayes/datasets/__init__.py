"""Documents from files, mailboxes and tables, scores from tables, and a stream of synthetic mail."""

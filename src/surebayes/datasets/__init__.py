"""Documents of users, from files, mailboxes and tables; scores from tables; and a stream of invented mail."""

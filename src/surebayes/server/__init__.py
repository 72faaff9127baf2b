"""Server for HTTP, SPAMD, rspamd's HTTP and milter, with one listener for each.

A listener turns a request into one call of `surebayes.server.service.Service` and the result into a reply. Verdicts,
counters, limits and logs are the same behind all of them. Requires the extra ``surebayes[server]``.
"""

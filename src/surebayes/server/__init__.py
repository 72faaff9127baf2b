"""The server: HTTP, SPAMD, rspamd's HTTP and milter, each a listener to one Filter.

A listener turns bytes into one call of `surebayes.server.service.Service` and its answer into bytes; what is judged,
counted, limited and logged is the same behind all of them. Needs the extra ``surebayes[server]``.
"""

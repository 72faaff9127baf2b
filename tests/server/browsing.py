"""A browser without a screen: requests to the application in this process, with cookies, one by one."""

import asyncio
import re

import httpx

from surebayes.server.process.web import application


class Browser:
    """Requests from this machine, or from another one."""

    def __init__(self, service, host="127.0.0.1"):
        transport = httpx.ASGITransport(application(service), client=(host, 4711))
        self._runner = asyncio.Runner()
        self._client = httpx.AsyncClient(transport=transport, base_url="http://localhost")
        self.cookies = self._client.cookies

    def get(self, path, follow=True, **options):
        return self._runner.run(self._client.get(path, follow_redirects=follow, **options))

    def post(self, path, data=None, follow=True, **options):
        return self._runner.run(self._client.post(path, data=data, follow_redirects=follow, **options))

    def send(self, path, data=None, page="/mail", **options):
        """Send a form with the word that a page has for it."""
        return self.post(path, {**(data or {}), "csrf": word_in(self.get(page))}, **options)

    def close(self):
        self._runner.run(self._client.aclose())
        self._runner.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def word_in(page):
    """The word that a form of a page must bring back."""
    return re.search(r'name="csrf" value="([0-9a-f]{64})"', page.text)[1]

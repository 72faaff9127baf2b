"""Visitors of the page, and their browsers."""

import re

TOKENS = {"reader": "read", "teacher": "teach", "keeper": "admin"}
WIDTHS = (360, 390, 768, 1440)


def sign_in(page, url, token):
    """Exchange a token for a session; without the rights of an administrator it leads to Mail."""
    page.goto(f"{url}/sign-in")
    page.fill("#token", token)
    page.click("button.primary")
    page.wait_for_url(re.compile(re.escape(url) + "/(mail)?$"))

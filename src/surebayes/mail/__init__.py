"""Mail to text: bytes to a `Message`, header fields and the tokens they give.

The kernel in C reads most mails; the readers in Python (`readers`, `mime`, `html`) read those that it leaves to them,
and all where it isn't built. `mail_kernel` is the kernel, or what takes its place.
"""

from surebayes.kernels import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType


def mail_kernel() -> "ModuleType":
    """Return the mail kernel, or `surebayes.mail.readers` where it isn't built.

    Examples
    --------
    >>> from surebayes.mail import mail_kernel
    >>> mail_kernel().html_text("<p>Fish &amp; chips")
    'Fish & chips'
    """
    return kernel("mail", "surebayes.mail.readers")

"""Mail to text: from bytes to a `Message`, header fields and header tokens.

The kernel in C reads most messages; the readers in Python (`readers`, `mime`, `html`) read the rest, and all messages
where the kernel isn't built. `mail_kernel` returns the kernel or its fallback.
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

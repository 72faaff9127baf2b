# Before every user's own script (dovecot: sieve_before): tagged mail goes to Junk.
require ["fileinto", "mailbox"];
if header :is "X-Spam-Flag" "YES" {
    fileinto :create "Junk";
    stop;
}

"""What is wrong with an account, a bookings table or a deployed stack: each fault by its name, with what to do.

A check is one small function with `@check(...)`.  It looks at one thing and says what it saw; what it cannot look at is
"not checked", with the reason, and never "ok".  Nothing is changed: all questions go through `Site.ask`.

What stands is held against the template that was deployed, so that a setting is told in one place only.
"""

"""The dashboard: what it shows is kept here, bounded and cheap, and never computed from the log.

`timeline` keeps samples, `reading` takes them, `board` has the newest one of a portfolio and those who watch it,
`sampler` is the task that takes them every second, `decisions` tells the story of one decision, `handlers` answers
requests, and `files` has the page itself.
"""

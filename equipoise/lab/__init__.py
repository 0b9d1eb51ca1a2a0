"""The laboratory: experiments, suite, audit, and how they run and report. Needs the extra [lab]."""

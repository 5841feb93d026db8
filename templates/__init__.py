"""The page, text and message templates (jinja2)."""

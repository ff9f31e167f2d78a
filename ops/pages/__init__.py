"""What the live page shows and does: `web.pages` asks for it, here it is made of the commands' code."""

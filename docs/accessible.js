// Names and tab stops that the theme leaves out: whoever uses no mouse reaches a block that scrolls.
function mend() {
  document.querySelectorAll("pre > code, .md-typeset__scrollwrap").forEach(block => {
    if (block.scrollWidth > block.clientWidth) block.tabIndex = 0
  })
  document.querySelectorAll(".md-code__nav").forEach(nav => nav.setAttribute("role", "presentation"))
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search")
}
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true })
window.addEventListener("resize", mend)
mend()

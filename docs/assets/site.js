// What scrolls sideways can be reached by the keyboard.
document$.subscribe(() => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset table, .sideways")) box.tabIndex = 0;
});

// What the pages gain from a script; without it everything is there, except dragging, keys, and a message beside the list.
"use strict";
(function () {
  const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
  const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

  // Times in the zone of the reader; UTC stays in the tooltip.
  function localTimes(root) {
    for (const time of root.querySelectorAll("time[datetime]:not([data-local])")) {
      const moment = new Date(time.dateTime);
      if (Number.isNaN(moment.getTime())) continue;
      time.title = time.title || time.textContent;
      const today = moment.toDateString() === new Date().toDateString();
      time.textContent = (time.classList.contains("short") ? (today ? clock : day) : full).format(moment);
      time.dataset.local = "";
    }
  }

  function percent(share) {
    if (share === null) return "–";
    const value = 100 * share;
    const digits = Math.abs(value) >= 1 || value === 0 ? 1 : 1 - Math.floor(Math.log10(Math.abs(value)));
    return `${Number(value.toFixed(digits))}%`;
  }

  // The threshold is dragged in the picture, or moved by the slider below it; figures and both pictures follow.
  function threshold() {
    const form = document.getElementById("threshold");
    if (!form) return;
    const places = JSON.parse(form.dataset.places), most = Number(form.dataset.most);
    const slider = form.querySelector("#point"), picture = form.querySelector(".histogram");
    const show = (name, text) => {
      const place = form.querySelector(`[data-show=${name}]`);
      if (place) place.textContent = text;
    };
    const here = document.querySelector(".corner .here");
    function move() {
      const [x, score, rate, recall, above, would, wrong] = places[slider.value];
      const line = picture.querySelector(".cut"), grip = picture.querySelector(".grip");
      line.setAttribute("x1", x); line.setAttribute("x2", x); grip.setAttribute("cx", x);
      show("threshold", (score < 0 ? "−" : "+") + Math.abs(score).toFixed(2));
      show("rate", percent(rate)); show("recall", percent(recall)); show("above", above.toLocaleString("en"));
      if (would !== undefined) { show("would", would.toLocaleString("en")); show("wrong", wrong.toLocaleString("en")); }
      if (here) {
        here.setAttribute("cx", 40 + (480 - 40 - 12) * Math.min(rate / most, 1));
        here.setAttribute("cy", 184 - 170 * (recall || 0));
      }
      slider.setAttribute("aria-valuetext", slider.dataset.value.replace("{rate}", percent(rate)).replace("{recall}", percent(recall)));
    }
    function drag(event) {
      const box = picture.getBoundingClientRect();
      const x = (event.clientX - box.left) * 480 / box.width;
      let best = 0;
      places.forEach((place, k) => { if (Math.abs(place[0] - x) < Math.abs(places[best][0] - x)) best = k; });
      slider.value = best;
      move();
    }
    picture.addEventListener("pointerdown", (event) => { picture.setPointerCapture(event.pointerId); drag(event); });
    picture.addEventListener("pointermove", (event) => { if (picture.hasPointerCapture(event.pointerId)) drag(event); });
    slider.addEventListener("input", move);
    move();
  }

  // A message that is dropped on the form is sent as if it had been chosen.
  function drops(root) {
    for (const form of root.querySelectorAll("form.drop")) {
      const input = form.querySelector("input[type=file]");
      form.addEventListener("dragover", (event) => { event.preventDefault(); form.classList.add("over"); });
      form.addEventListener("dragleave", () => form.classList.remove("over"));
      form.addEventListener("drop", (event) => {
        event.preventDefault();
        form.classList.remove("over");
        if (event.dataTransfer.files.length) {
          input.files = event.dataTransfer.files;
          form.requestSubmit();
        } else {
          form.querySelector("textarea").value = event.dataTransfer.getData("text/plain");
        }
      });
    }
  }

  // ---- mail: a list with a message beside it

  const bar = document.getElementById("mails"), list = document.querySelector(".mails");
  const pane = document.getElementById("pane"), keys = document.getElementById("keys");
  let chosen = null;
  const rows = () => [...document.querySelectorAll("[data-row]")];
  const boxes = () => (list ? [...list.querySelectorAll("input[name=number]")] : []);
  const hasPane = () => list && pane && getComputedStyle(pane).display !== "none";

  function choose(row) {
    if (!row) return;
    if (chosen) chosen.classList.remove("chosen");
    chosen = row;
    row.classList.add("chosen");
    row.querySelector("a.open").focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
  }

  function open(row) {
    const link = row.querySelector("a.open");
    if (!hasPane()) { link.click(); return; }
    for (const each of rows()) each.classList.toggle("opened", each === row);
    htmx.ajax("GET", link.getAttribute("href"), { target: "#pane", swap: "innerHTML" });
  }

  function selected() {
    const all = document.querySelector(".pick-all"), some = boxes().filter((box) => box.checked);
    if (all) { all.checked = some.length > 0 && some.length === boxes().length; all.indeterminate = some.length > 0 && !all.checked; }
    return some;
  }

  if (list) {
    if (pane) document.documentElement.classList.add("with-pane");
    list.addEventListener("click", (event) => {
      const link = event.target.closest("a.open");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey || !hasPane()) return;
      event.preventDefault();
      choose(link.closest("[data-row]"));
      open(chosen);
    });
    list.addEventListener("change", selected);
  }
  if (bar) {
    const all = bar.querySelector(".pick-all");
    all.closest("label").hidden = false;
    all.addEventListener("change", () => { for (const box of boxes()) box.checked = all.checked; selected(); });
  }
  const button = document.querySelector(".keys-open");
  if (button && keys) {
    button.hidden = false;
    button.addEventListener("click", () => keys.showModal());
  }

  // Keys: each button names its own in data-key. In the list, a report is for the selected messages, or the chosen one.
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || (keys && keys.open)) return;
    const typing = event.target.closest("input:not([type=checkbox]), textarea, select");
    if (event.key === "Escape" && list) {
      if (typing) typing.blur();
      else if (hasPane() && pane.querySelector(".message")) {
        pane.replaceChildren();
        for (const each of rows()) each.classList.remove("opened");
      }
      return;
    }
    if (typing) return;
    const act = {
      "/": () => document.getElementById("q") && document.getElementById("q").focus(),
      "?": () => keys && keys.showModal(),
      j: () => step(1), k: () => step(-1),
      o: () => chosen && open(chosen),
      x: () => {
        const box = chosen && chosen.querySelector("input[name=number]");
        if (box) { box.checked = !box.checked; selected(); }
      },
    }[event.key];
    if (act && (list || event.key === "/")) {
      event.preventDefault();
      act();
      return;
    }
    const found = [...document.querySelectorAll("[data-key]")].filter((each) => each.dataset.key === event.key);
    if (!found.length) return;
    event.preventDefault();
    const inBar = found.find((each) => bar && bar.contains(each));
    if (!inBar || selected().length) { (inBar || found[0]).click(); return; }
    const box = chosen && chosen.querySelector("input[name=number]");
    if (box) { box.checked = true; inBar.click(); }
  });

  function step(way) {
    const all = rows(), at = all.indexOf(chosen);
    choose(all[Math.min(Math.max(at + way, 0), all.length - 1)]);
    const next = document.querySelector(".mails .more a");
    if (next && all.indexOf(chosen) >= all.length - 5) next.click();
    if (hasPane() && pane.querySelector(".message")) open(chosen);
  }

  // The answer to a report has the rows that changed; those that are in the list take the place of the former ones.
  function replaceRows(text) {
    for (const row of new DOMParser().parseFromString(text, "text/html").querySelectorAll(".changed > [data-row]")) {
      const former = document.getElementById(row.id);
      if (!former) continue;
      const fresh = document.adoptNode(row), link = former.querySelector("a.open");
      fresh.querySelector("a.open").href = link.getAttribute("href");
      if (former.classList.contains("opened")) fresh.classList.add("opened");
      const focused = former.contains(document.activeElement);
      former.replaceWith(fresh);
      if (chosen === former) { chosen = fresh; fresh.classList.add("chosen"); }
      if (focused) fresh.querySelector("a.open").focus({ preventScroll: true });
    }
    localTimes(document);
  }

  document.addEventListener("htmx:afterSettle", () => localTimes(document));
  // The open message shows its new label.
  document.addEventListener("htmx:afterRequest", (event) => {
    const { successful, requestConfig } = event.detail;
    if (!successful || requestConfig.verb !== "post") return;
    replaceRows(event.detail.xhr.responseText);
    selected();
    const message = pane && pane.querySelector(".message");
    if (message) {
      const row = document.getElementById(`mail-${message.dataset.number}`);
      const link = row ? row.querySelector("a.open").getAttribute("href") : location.pathname + location.search;
      htmx.ajax("GET", link, { target: "#pane", swap: "innerHTML" });
      if (row) row.classList.add("opened");
    }
  });
  // What was refused is shown where the answer would have been.
  document.addEventListener("htmx:responseError", (event) => {
    const place = document.getElementById("notice");
    if (place) {
      const shown = document.createElement("p");
      shown.className = "problem";
      shown.textContent = new DOMParser().parseFromString(event.detail.xhr.responseText, "text/html").body.textContent.trim();
      place.replaceChildren(shown);
    }
  });

  localTimes(document);
  drops(document);
  threshold();
})();

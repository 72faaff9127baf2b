// What the pages gain from a script; without it everything is there all the same, but for dragging and keys.
"use strict";
(function () {
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

  function localTimes(root) {
    for (const time of root.querySelectorAll("time[datetime]:not([data-local])")) {
      const moment = new Date(time.dateTime);
      if (Number.isNaN(moment.getTime())) continue;
      time.title = time.textContent;
      time.textContent = format.format(moment);
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
    const show = (name, text) => { form.querySelector(`[data-show=${name}]`).textContent = text; };
    const here = document.querySelector(".corner .here");
    function move() {
      const [x, score, rate, recall, above] = places[slider.value];
      const line = picture.querySelector(".cut"), grip = picture.querySelector(".grip");
      line.setAttribute("x1", x); line.setAttribute("x2", x); grip.setAttribute("cx", x);
      show("threshold", (score < 0 ? "−" : "+") + Math.abs(score).toFixed(2));
      show("rate", percent(rate)); show("recall", percent(recall)); show("above", above.toLocaleString("en"));
      if (here) {
        here.setAttribute("cx", 40 + (480 - 40 - 12) * Math.min(rate / most, 1));
        here.setAttribute("cy", 184 - 170 * (recall || 0));
      }
      slider.setAttribute("aria-valuetext", `at most ${percent(rate)} false alarms, ${percent(recall)} found`);
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

  // A mail that is dropped on the form is sent as if it had been chosen.
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

  // Keys: each button says its own in data-key; in a list, j and k choose the row that they are for.
  let chosen = null;
  function choose(row) {
    if (!row) return;
    if (chosen) chosen.classList.remove("chosen");
    chosen = row;
    row.classList.add("chosen");
    row.scrollIntoView({ block: "nearest" });
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    const rows = [...document.querySelectorAll("tr[data-row]")];
    if (rows.length && (event.key === "j" || event.key === "k")) {
      const at = rows.indexOf(chosen);
      choose(rows[Math.min(Math.max(at + (event.key === "j" ? 1 : -1), 0), rows.length - 1)]);
      event.preventDefault();
      return;
    }
    const within = rows.length ? chosen : document;
    const button = within && [...within.querySelectorAll("[data-key]")].find((each) => each.dataset.key === event.key);
    if (button) {
      event.preventDefault();
      button.click();
    }
  });

  // A row that was swapped stays the chosen one.
  document.addEventListener("htmx:afterSettle", () => {
    localTimes(document);
    if (chosen && !(chosen.isConnected && chosen.classList.contains("chosen"))) {
      const row = document.getElementById(chosen.id);
      chosen = null;
      choose(row);
    }
  });
  // What was refused is shown where the answer would have been said.
  document.addEventListener("htmx:responseError", (event) => {
    const place = document.getElementById("said");
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

// The patch browser. All texts reach the page through textContent, so nothing in a caption is ever markup.
(function () {
  "use strict";
  const holder = document.getElementById("patch-browser-data");
  if (!holder) return;
  const data = JSON.parse(holder.textContent);
  const at = (id) => document.getElementById("browser-" + id);
  const codes = Object.keys(data.languages);
  const language = at("language"), caption = at("caption"), intervention = at("intervention"), depth = at("depth");

  function fill(select, texts, chosen) {
    select.replaceChildren();
    texts.forEach((text) => {
      const option = document.createElement("option");
      option.textContent = text;
      select.append(option);
    });
    select.selectedIndex = Math.max(0, chosen);
  }

  // A caption in its own script and direction, whatever the page's is.
  function say(element, text, code) {
    element.textContent = text;
    element.lang = code || "";
    element.dir = "auto";
  }

  function entry(list, term, text, code) {
    const name = document.createElement("dt"), value = document.createElement("dd");
    name.textContent = term;
    say(value, text, code);
    list.append(name, value);
  }

  function images(list, rows, right) {
    list.replaceChildren();
    rows.forEach((row, place) => {
      const item = document.createElement("li"), picture = document.createElement("img"), text = document.createElement("span");
      const name = data.image_names[row] || "image " + row;
      picture.src = data.thumbnails[row];
      picture.alt = name;
      picture.lang = data.image_names_language;
      say(text, name, data.image_names_language);
      item.append(picture, text);
      item.title = "nearest image " + (place + 1);
      if (row === right) {
        item.className = "right";
        const mark = document.createElement("div");
        mark.textContent = "✓ right image";
        item.append(mark);
      }
      list.append(item);
    });
  }

  function ranks(element, t2i, i2t, here) {
    element.textContent =
      "Right image: rank " + t2i + " of " + data.n_images + " (t2i). Its caption, asked from the image: rank " + i2t + " of " + here.captions_ranked + " (i2t).";
  }

  function strip(here, k, c) {
    const list = at("strip");
    list.replaceChildren();
    data.depths.forEach((step, d) => {
      const item = document.createElement("li"), button = document.createElement("button");
      const number = document.createElement("small"), rank = document.createElement("span");
      const value = here.ranks.t2i.patched[k][d][c];
      number.textContent = step.depth === 0 ? "emb" : step.depth;
      rank.textContent = value;
      button.type = "button";
      button.append(number, rank);
      button.title = step.name + ": rank " + value;
      button.setAttribute("aria-label", step.name + ": rank " + value);
      button.setAttribute("aria-pressed", String(d === Number(depth.value)));
      if (value === 1) button.className = "hit";
      button.addEventListener("click", () => {
        depth.value = d;
        show();
        list.children[d].firstChild.focus();
      });
      item.append(button);
      list.append(item);
    });
  }

  function show() {
    const code = codes[language.selectedIndex], here = data.languages[code];
    const k = intervention.selectedIndex, c = caption.selectedIndex, d = Number(depth.value);
    const rule = data.interventions[k], right = data.image_rows[c], step = data.depths[d];
    at("depth-name").textContent = step.name + (step.depth === data.last_depth ? ", the last" : "");
    depth.setAttribute("aria-valuetext", step.name);

    const texts = at("texts");
    texts.replaceChildren();
    entry(texts, data.language_names[code], data.captions[code][c], code);
    rule.sources.filter((source) => source !== code && data.captions[source]).forEach((source) => {
      entry(texts, data.language_names[source] + ", same image", data.captions[source][c], source);
    });
    at("does").textContent = rule.does;

    images(at("before"), here.clean_top[c], right);
    ranks(at("before-rank"), here.ranks.t2i.clean[c], here.ranks.i2t.clean[c], here);
    images(at("after"), here.patched_top[k][d][c], right);
    at("after-title").textContent = "After: " + rule.name + " at " + step.name;
    ranks(at("after-rank"), here.ranks.t2i.patched[k][d][c], here.ranks.i2t.patched[k][d][c], here);
    strip(here, k, c);
  }

  function captions() {
    const code = codes[language.selectedIndex], chosen = caption.selectedIndex;
    fill(caption, data.captions[code].map((text, place) => place + 1 + ". " + text), chosen);
    caption.lang = code;
  }

  fill(language, codes.map((code) => data.language_names[code]), data.first.language);
  fill(intervention, data.interventions.map((rule) => rule.name), data.first.intervention);
  depth.max = data.depths.length - 1;
  depth.value = data.first.depth;
  captions();
  caption.selectedIndex = data.first.caption;
  language.addEventListener("change", () => { captions(); show(); });
  [caption, intervention].forEach((control) => control.addEventListener("change", show));
  depth.addEventListener("input", show);
  show();
})();

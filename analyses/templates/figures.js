// Draws every figure of a page, turns its menus into ordinary controls, and fits it to the width of the screen.
(function () {
  "use strict";
  const NARROW = 640;
  const PRINTED = 680;
  const copy = (value) => JSON.parse(JSON.stringify(value === undefined ? {} : value));
  const make = (tag, text) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  // Labels are escaped for Plotly; a control shows them as they are.
  const plain = (text) =>
    text.replace(/&#37;/g, "%").replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&");

  function apply(plot, button) {
    const args = copy(button.args);
    return Plotly[button.method](plot, ...args);
  }

  function buttons(plot, menu) {
    const group = make("div");
    group.className = "choice";
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", menu.name);
    group.append(make("span", menu.name), make("div"));
    menu.buttons.forEach((button, place) => {
      const control = make("button", plain(button.label));
      control.type = "button";
      control.setAttribute("aria-pressed", String(place === (menu.active || 0)));
      control.addEventListener("click", () => {
        group.querySelectorAll("button").forEach((other) => other.setAttribute("aria-pressed", String(other === control)));
        apply(plot, button);
      });
      group.lastChild.append(control);
    });
    return group;
  }

  function dropdown(plot, menu) {
    const label = make("label", menu.name);
    const select = make("select");
    menu.buttons.forEach((button) => select.append(make("option", plain(button.label))));
    select.selectedIndex = menu.active || 0;
    select.addEventListener("change", () => apply(plot, menu.buttons[select.selectedIndex]));
    label.append(select);
    return label;
  }

  function draw(plot) {
    const figure = JSON.parse(document.getElementById(plot.dataset.figure).textContent);
    const menus = figure.layout.updatemenus || [];
    delete figure.layout.updatemenus;
    const controls = document.getElementById(plot.id + "-controls");
    menus.forEach((menu) => controls.append((menu.type === "buttons" ? buttons : dropdown)(plot, menu)));
    // The menus stood in the margin above the plot; notes still may.
    const top = figure.layout.annotations ? 68 : 36;
    figure.layout.margin = Object.assign({}, figure.layout.margin, { t: top });
    const meta = figure.layout.meta || {};
    const config = {
      responsive: true,
      displaylogo: false,
      // Plotly's own default offers to upload the figure.
      showSendToCloud: false,
      plotlyServerURL: "",
      modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"],
      toImageButtonOptions: { filename: plot.id, scale: 2 },
    };
    // A figure with a height of its own is not responsive, so its place gets the height instead.
    const tall = (layout) => {
      if (layout.height) plot.style.height = layout.height + "px";
      delete layout.height;
    };
    tall(figure.layout);
    let narrow = false;
    const fit = () => {
      const now = plot.clientWidth < NARROW;
      if (now === narrow) return undefined;
      narrow = now;
      const changes = copy(now ? meta.narrow : meta.wide);
      tall(changes);
      return Plotly.relayout(plot, Object.assign(changes, { autosize: true }));
    };
    Plotly.newPlot(plot, figure.data, figure.layout, config).then(fit);
    window.addEventListener("resize", fit);
  }

  document.querySelectorAll("[data-figure]").forEach(draw);

  // Paper is narrower than most screens, and a figure does not shrink by itself. What a printout must have is unfolded.
  const unfolded = [];
  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("[data-figure]").forEach((plot) => Plotly.relayout(plot, { width: PRINTED, height: plot.clientHeight }));
    document.querySelectorAll("#provenance details:not([open])").forEach((details) => {
      details.open = true;
      unfolded.push(details);
    });
  });
  window.addEventListener("afterprint", () => {
    document.querySelectorAll("[data-figure]").forEach((plot) => Plotly.relayout(plot, { width: null, height: null, autosize: true }));
    unfolded.splice(0).forEach((details) => { details.open = false; });
  });

  // Tables are kept compressed in the page and unpacked when they are asked for.
  document.querySelectorAll("button.download").forEach((button) => {
    if (typeof DecompressionStream === "undefined") {
      button.hidden = true;
      return;
    }
    button.addEventListener("click", async () => {
      const packed = JSON.parse(document.getElementById(button.dataset.csv).textContent);
      const bytes = Uint8Array.from(atob(packed.gzip), (letter) => letter.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([await new Response(stream).arrayBuffer()], { type: "text/csv" }));
      link.download = packed.name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    });
  });
})();

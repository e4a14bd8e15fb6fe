"use strict";
// The points of the study: a table that sorts and filters, and a panel with the details of the selected point.
(() => {
  const data = JSON.parse(document.getElementById("explorer-data").textContent);
  if (!data) return;
  const ROWS_A_PAGE = 25, MOST_CHOICES = 40, BAR_PX = 150;
  const place = new Map(data.numbers.map((number, row) => [number, row]));
  const detail = document.getElementById("detail"), tip = document.getElementById("tip");
  const latency = data.columns.find(column => column.label === "simulated latency");
  const longest = new Map();  // latency of each network
  if (latency) data.numbers.forEach((_, row) => {
    const network = data.columns[0].values[row];
    longest.set(network, Math.max(longest.get(network) || 0, latency.values[row] || 0));
  });
  const split = data.pace.length ? latency : undefined;
  const rows = data.numbers.map((_, row) => row);
  let shown = rows, page = 0, chosen = null, equal = false, order = { column: null, down: false };

  /** An element with attributes and children; text is never read as HTML. */
  function element(name, attributes = {}, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else node.setAttribute(key, value);
    }
    node.append(...children);
    return node;
  }

  function number(value) {
    if (value === null) return "–";
    const magnitude = value === 0 ? 0 : Math.floor(Math.log10(Math.abs(value)));
    if (magnitude < -6 || magnitude > 9) return value.toExponential(2);
    const digits = Math.min(12, Math.max(0, 2 - magnitude));
    return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  }

  const heading = column => column.unit ? `${column.label} [${column.unit}]` : column.label;
  const text = (column, row) => column.names ? column.names[column.values[row]] || "–" : number(column.values[row]);
  const command = row => data.commands.names[data.commands.values[row]];
  const error = row => data.errors.names[data.errors.values[row]];
  const title = row => data.columns.slice(0, 2).map(column => text(column, row)).join(" under ");

  /** The latency of a point as a bar, split by bottleneck; as long as all others or to the scale of its network. */
  function bar(row, width) {
    const node = element("div", { class: "bar" });
    if (!latency || latency.values[row] === null) return node;
    const length = equal ? width : width * latency.values[row] / longest.get(data.columns[0].values[row]);
    for (const pace of data.pace) {
      const part = element("span");
      part.style.width = `${length * (pace.shares[row] || 0)}px`;
      part.style.background = pace.colour;
      node.append(part);
    }
    node.setAttribute("aria-label", shares(row).map(each => `${each.name} ${percent(each.share)}`).join(", "));
    node.setAttribute("role", "img");
    return node;
  }

  const percent = share => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;

  function shares(row) {
    return data.pace.map(pace => ({ ...pace, share: pace.shares[row] || 0 }))
      .filter(each => each.share > 0).sort((a, b) => b.share - a.share);
  }

  // The point that is chosen

  let opener = null;  // a function that gives the focus back when the panel is closed

  function choose(row, back) {
    if (row === null && chosen !== null && opener) setTimeout(opener);
    opener = row === null ? null : back || null;
    chosen = row;
    const numbered = row === null ? null : String(data.numbers[row]);
    for (const spot of document.querySelectorAll(".spot")) spot.classList.toggle("chosen", spot.dataset.point === numbered);
    detail.hidden = row === null;
    if (row !== null) detail.replaceChildren(...described(row));
    draw();
    if (row !== null && back) detail.querySelector(".close").focus();
  }

  function described(row) {
    const close = element("button", { class: "close", "aria-label": "Close", onclick: () => choose(null) }, "✕");
    const figures = element("table", {}, element("tbody", {}, ...data.columns.slice(2).map(column => element(
      "tr", {}, element("th", { scope: "row" }, heading(column)), element("td", {}, text(column, row))))));
    const parts = [element("h3", {}, title(row)), close];
    if (error(row)) parts.push(element("p", {}, `Gave no figures: ${error(row)}`));
    parts.push(figures);
    if (!error(row) && data.pace.length) {
      const parted = element("div", { class: "share" });
      for (const each of shares(row)) {
        const mark = element("i");
        mark.style.background = each.colour;
        const time = latency && latency.values[row] !== null ? `${number(each.share * latency.values[row])} ${latency.unit}` : "";
        parted.append(mark, element("span", {}, each.name), element("span", {}, time), element("span", {}, percent(each.share)));
      }
      parts.push(element("b", {}, "Where the latency goes"), parted);
    }
    if (command(row)) {
      const code = element("pre", { id: "command" }, command(row));
      const copy = element("button", { id: "copy", onclick: () => copied(code, copy) }, "Copy the command");
      parts.push(element("b", {}, "Run it by itself"), code, copy);
    } else {
      parts.push(element("p", {}, "These results have no command stored for this point; run the experiment again for that."));
    }
    return parts;
  }

  async function copied(code, button) {
    const range = document.createRange();
    range.selectNodeContents(code);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    let done = document.execCommand("copy");
    if (!done && navigator.clipboard) done = await navigator.clipboard.writeText(code.textContent).then(() => true, () => false);
    button.textContent = done ? "Copied" : "Selected: press Ctrl+C";
  }

  // The table

  const filters = new Map();
  const body = element("tbody"), pager = element("div", { class: "pager" });
  const sorters = data.columns.map((column, index) => {
    const button = element("button", { onclick: () => sort(column), title: "Sort by this column" }, heading(column));
    return element("th", { scope: "col", class: column.names ? "" : "n", "data-column": index }, button);
  });

  function sort(column) {
    order = { column, down: order.column === column && !order.down };
    page = 0;
    draw();
  }

  function filterOf(column) {
    const label = `Filter by ${column.label}`;
    if (column.names && column.names.length <= MOST_CHOICES) {
      const all = [element("option", { value: "" }, "all"), ...column.names.map((name, index) =>
        element("option", { value: index }, name || "–"))];
      return element("select", { "aria-label": label, onchange: event => filter(column, event.target.value === ""
        ? null : row => column.values[row] === Number(event.target.value)) }, ...all);
    }
    const hint = column.names ? "contains" : "< 5";
    return element("input", { "aria-label": label, placeholder: hint, title: column.names ? hint : "< 5, >= 2, 1..2 or 5", oninput: event =>
      filter(column, column.names ? contains(column, event.target.value) : within(column, event.target.value)) });
  }

  function contains(column, wanted) {
    const part = wanted.trim().toLowerCase();
    return part ? row => column.names[column.values[row]].toLowerCase().includes(part) : null;
  }

  /** A condition on numbers: "< 5", ">= 2", "1..2" or "5". */
  function within(column, wanted) {
    const range = wanted.match(/^\s*(-?[\d.]+)\s*\.\.\s*(-?[\d.]+)\s*$/);
    const bound = wanted.match(/^\s*(<=|>=|<|>|=)?\s*(-?[\d.]+(?:e-?\d+)?)\s*$/i);
    if (!range && !bound) return null;
    const [low, high] = range ? [Number(range[1]), Number(range[2])] : [Number(bound[2]), Number(bound[2])];
    const sign = range ? ".." : bound[1] || "=";
    const tests = {
      "<": value => value < high, "<=": value => value <= high, ">": value => value > low, ">=": value => value >= low,
      "..": value => low <= value && value <= high, "=": value => number(value) === number(low),
    };
    return row => column.values[row] !== null && tests[sign](column.values[row]);
  }

  function filter(column, test) {
    if (test) filters.set(column, test); else filters.delete(column);
    page = 0;
    draw();
  }

  function compared(a, b) {
    const { column, down } = order, one = column.values[a], other = column.values[b];
    if (!column.names && (one === null || other === null)) return (one === null) - (other === null);
    const difference = column.names ? text(column, a).localeCompare(text(column, b), "en", { numeric: true }) : one - other;
    return down ? -difference : difference;
  }

  function draw() {
    shown = rows.filter(row => [...filters.values()].every(test => test(row)));
    if (order.column) shown = [...shown].sort((a, b) => compared(a, b) || a - b);
    for (const header of sorters) {
      const isOrder = data.columns[header.dataset.column] === order.column;
      if (isOrder) header.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      else header.removeAttribute("aria-sort");
      header.firstChild.textContent = heading(data.columns[header.dataset.column]) + (isOrder ? (order.down ? " ▼" : " ▲") : "");
    }
    const pages = Math.max(1, Math.ceil(shown.length / ROWS_A_PAGE));
    page = Math.min(page, pages - 1);
    const here = shown.slice(page * ROWS_A_PAGE, (page + 1) * ROWS_A_PAGE);
    body.replaceChildren(...here.map(row => element(
      "tr", {
        class: row === chosen ? "chosen" : "", tabindex: 0, "data-point": data.numbers[row], onclick: () => choose(row),
        onkeydown: event => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          choose(row, () => body.querySelector(`[data-point="${data.numbers[row]}"]`)?.focus());
        },
      },
      ...data.columns.flatMap(column => {
        const cell = element("td", { class: column.names ? "" : "n" }, text(column, row));
        return column === split ? [cell, element("td", {}, error(row) ? "failed" : bar(row, BAR_PX))] : [cell];
      }))));
    const first = shown.length ? page * ROWS_A_PAGE + 1 : 0;
    const of = shown.length < rows.length ? ` (of ${rows.length.toLocaleString("en-US")})` : "";
    const back = element("button", { onclick: () => { page -= 1; draw(); } }, "Previous");
    const next = element("button", { onclick: () => { page += 1; draw(); } }, "Next");
    back.disabled = page === 0;
    next.disabled = page === pages - 1;
    pager.replaceChildren(
      element("span", { id: "counted" }, `${first.toLocaleString("en-US")} to ${(first ? first + here.length - 1 : 0).toLocaleString("en-US")} of ${shown.length.toLocaleString("en-US")} point${shown.length === 1 ? "" : "s"}${of}`),
      back, next);
  }

  const kinds = element("p", { class: "kinds" });
  for (const pace of data.pace) {
    const mark = element("i");
    mark.style.background = pace.colour;
    kinds.append(element("span", {}, mark, pace.name));
  }
  if (split) kinds.append(element("label", {}, element("input", { type: "checkbox", id: "equal", onchange: event => {
    equal = event.target.checked;
    draw();
  } }), " bars of equal length"));
  const wide = (column, made, further) => column === split ? [made, further] : [made];
  document.getElementById("table").append(
    kinds,
    element("div", { class: "scroll" }, element("table", {}, element("thead", {},
      element("tr", {}, ...data.columns.flatMap((column, index) =>
        wide(column, sorters[index], element("th", { scope: "col" }, "where the latency goes")))),
      element("tr", { class: "filters" }, ...data.columns.flatMap(column =>
        wide(column, element("th", { class: column.names ? "" : "n" }, filterOf(column)), element("th"))))), body)),
    pager);
  draw();

  // Points in charts

  function told(row) {
    const lines = [title(row), ...data.columns.slice(2).map(column => `${heading(column)}: ${text(column, row)}`)];
    const most = shares(row).slice(0, 4).map(each => `${each.name} ${percent(each.share)}`).join(", ");
    return [...lines, ...(most ? [`latency goes to: ${most}`] : [])].join("\n");
  }

  /** What is told of a point in a chart, with the points that lie at the same place. */
  function toldAt(spot, row) {
    const at = each => ["x", "y", "cx", "cy"].map(name => each.getAttribute(name)).join();
    const tied = [...spot.ownerSVGElement.querySelectorAll(".spot")].filter(each => each !== spot && at(each) === at(spot));
    const also = tied.length ? [`Tied: ${tied.length} more point${tied.length === 1 ? "" : "s"} at this place`] : [];
    return [told(row), ...also, "Click or press Enter for its command."].join("\n");
  }

  window.showTip = (event, words) => {
    tip.hidden = !words;
    if (!words) return;
    tip.textContent = words;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, innerWidth - width - 8))}px`;
    tip.style.top = `${event.clientY + 18 + height < innerHeight ? event.clientY + 18 : Math.max(8, event.clientY - height - 12)}px`;
  };
  const pointOf = event => event.target instanceof Element && event.target.matches(".spot")
    ? place.get(Number(event.target.dataset.point)) : undefined;
  document.addEventListener("pointerover", event => {
    const row = pointOf(event);
    if (row !== undefined) window.showTip(event, toldAt(event.target, row));
    else if (!(event.target instanceof Element && event.target.matches("canvas"))) window.showTip(event, "");
  });
  document.addEventListener("click", event => {
    const row = pointOf(event);
    if (row !== undefined) { window.showTip(event, ""); choose(row); }
  });
  document.addEventListener("keydown", event => {
    if (event.key !== "Escape") return;
    window.showTip(event, "");
    choose(null);
  });

  // Charts by keyboard: one stop of the Tab key for each; arrow keys go from point to point, from left to right

  const middle = spot => { const box = spot.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; };
  for (const chart of document.querySelectorAll("svg:has(.spot)")) {
    const spots = [...chart.querySelectorAll(".spot")].filter(spot => place.has(Number(spot.dataset.point)));
    const order = new Map(spots.map(spot => [spot, middle(spot)]));
    spots.sort((a, b) => order.get(a)[0] - order.get(b)[0] || order.get(b)[1] - order.get(a)[1]);
    spots.forEach((spot, number) => {
      const row = place.get(Number(spot.dataset.point));
      spot.setAttribute("tabindex", number ? -1 : 0);
      spot.setAttribute("role", "button");
      spot.setAttribute("aria-label", title(row));
      spot.addEventListener("focus", () => {
        const [x, y] = middle(spot);
        if (spot.matches(":focus-visible")) window.showTip({ clientX: x, clientY: y }, toldAt(spot, row));
      });
      spot.addEventListener("blur", event => window.showTip(event, ""));
      spot.addEventListener("keydown", event => {
        const steps = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, Home: -number, End: spots.length - 1 - number };
        if (event.key in steps) {
          const next = spots[Math.min(spots.length - 1, Math.max(0, number + steps[event.key]))];
          spot.setAttribute("tabindex", -1);
          next.setAttribute("tabindex", 0);
          next.focus();
        } else if (event.key === "Enter" || event.key === " ") {
          choose(row, () => spot.focus());
        } else return;
        event.preventDefault();
      });
    });
  }

  // What scrolls sideways can be scrolled by keyboard
  for (const box of document.querySelectorAll(".scroll")) {
    if (box.scrollWidth <= box.clientWidth || box.tabIndex === 0) continue;
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", "Wide content; arrow keys scroll it");
  }
})();

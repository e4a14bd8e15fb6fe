"use strict";
// Zoomable timelines, each on its own time scale, drawn in place of the static picture.
(() => {
  const timelines = JSON.parse(document.getElementById("timeline-data").textContent);
  const UNITS = [[1e12, "s"], [1e9, "ms"], [1e6, "µs"], [1e3, "ns"], [1, "ps"]];
  const LANE = 30, TOP = 6, AXIS = 44, FONT = 12.5;

  class Timeline {
    constructor(box, data) {
      this.data = data;
      this.box = box;
      this.start = 0;
      this.end = data.makespan || 1;
      this.canvas = document.createElement("canvas");
      this.canvas.tabIndex = 0;
      this.canvas.setAttribute("role", "img");
      this.canvas.setAttribute("aria-label", `${data.title}: timeline; plus and minus zoom, arrow keys move`);
      this.said = document.createElement("span");
      box.classList.add("live");
      const heading = document.createElement("h3");
      heading.textContent = data.title;
      box.append(heading, this.legend(), this.tools(), this.canvas);
      this.listen();
      new ResizeObserver(() => this.draw()).observe(box);
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
      this.draw();
    }

    legend() {
      const list = document.createElement("p");
      list.className = "kinds";
      const used = new Set(this.data.lanes.flatMap(lane => lane.spans.map(span => span[2])));
      const shown = this.data.kinds.filter((_, index) => used.has(index));
      for (const colour of new Set(shown.map(kind => kind.colour))) {
        const mark = document.createElement("i"), entry = document.createElement("span");
        mark.style.background = colour;
        entry.append(mark, shown.filter(kind => kind.colour === colour).map(kind => kind.name).join(" or "));
        list.append(entry);
      }
      return list;
    }

    tools() {
      const bar = document.createElement("div");
      bar.className = "tools";
      for (const [name, act] of [["Zoom in", () => this.zoom(0.4)], ["Zoom out", () => this.zoom(2.5)],
        ["◀", () => this.move(-0.3)], ["▶", () => this.move(0.3)], ["All", () => this.show(0, this.data.makespan)]]) {
        const button = document.createElement("button");
        button.textContent = name;
        if (name === "◀") button.setAttribute("aria-label", "Earlier");
        if (name === "▶") button.setAttribute("aria-label", "Later");
        button.addEventListener("click", act);
        bar.append(button);
      }
      bar.append(this.said);
      return bar;
    }

    listen() {
      let from = null;
      this.canvas.addEventListener("pointerdown", event => {
        from = { x: event.clientX, start: this.start };
        this.canvas.setPointerCapture(event.pointerId);
      });
      this.canvas.addEventListener("pointerup", () => { from = null; });
      this.canvas.addEventListener("pointermove", event => {
        if (!from) return this.tell(event);
        const length = this.end - this.start;
        const start = from.start - (event.clientX - from.x) * length / this.room;
        return this.show(start, start + length);
      });
      this.canvas.addEventListener("pointerleave", event => this.hint(event, ""));
      this.canvas.addEventListener("dblclick", event => this.zoom(0.4, this.timeAt(event)));
      this.canvas.addEventListener("wheel", event => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.timeAt(event));
      }, { passive: false });
      this.canvas.addEventListener("keydown", event => {
        const acts = { "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
          ArrowLeft: () => this.move(-0.2), ArrowRight: () => this.move(0.2), Home: () => this.show(0, this.data.makespan) };
        if (acts[event.key]) { event.preventDefault(); acts[event.key](); }
      });
    }

    hint(event, words) { if (window.showTip) window.showTip(event, words); }

    timeAt(event) {
      const x = event.clientX - this.canvas.getBoundingClientRect().left - this.left;
      return this.start + x * (this.end - this.start) / this.room;
    }

    zoom(factor, around = (this.start + this.end) / 2) {
      this.show(around - (around - this.start) * factor, around + (this.end - around) * factor);
    }

    move(share) {
      const step = (this.end - this.start) * share;
      this.show(this.start + step, this.end + step);
    }

    show(start, end) {
      const whole = this.data.makespan || 1;
      const length = Math.min(whole, Math.max(Math.min(100, whole), end - start));
      this.start = Math.min(Math.max(0, start), whole - length);
      this.end = this.start + length;
      this.draw();
    }

    /** The span under the pointer, in words. */
    tell(event) {
      const lane = this.data.lanes[Math.floor((event.clientY - this.canvas.getBoundingClientRect().top - TOP) / LANE)];
      const time = this.timeAt(event), slack = 2 * (this.end - this.start) / this.room;
      const near = span => Math.max(span[0] - time, time - span[0] - span[1], 0);
      const span = lane && lane.spans.filter(each => near(each) <= slack).sort((a, b) => near(a) - near(b))[0];
      this.hint(event, span ? [`${lane.name}: ${this.data.kinds[span[2]].name}`, this.data.labels[span[3]],
        `from ${this.time(span[0])}, for ${this.time(span[1])}`].filter(Boolean).join("\n") : "");
    }

    time(ps) {
      const [divisor, unit] = UNITS.find(each => ps >= each[0]) || UNITS[4];
      return `${Number((ps / divisor).toPrecision(4))} ${unit}`;
    }

    draw() {
      const width = this.box.clientWidth, height = TOP + LANE * this.data.lanes.length + AXIS, scale = devicePixelRatio || 1;
      if (!width) return;
      this.canvas.width = width * scale;
      this.canvas.height = height * scale;
      this.canvas.style.height = `${height}px`;
      const style = getComputedStyle(document.documentElement), pen = this.canvas.getContext("2d");
      const colour = name => name.startsWith("var(") ? style.getPropertyValue(name.slice(4, -1)) : name;
      pen.scale(scale, scale);
      pen.font = `${FONT}px ${style.getPropertyValue("--sans")}`;
      pen.textBaseline = "middle";
      const names = this.data.lanes.map(lane => this.clipped(pen, lane.name, width * 0.3));
      this.left = 12 + Math.max(...names.map(name => pen.measureText(name).width), 0);
      this.room = Math.max(50, width - this.left - 8);
      const perPs = this.room / (this.end - this.start), bottom = TOP + LANE * this.data.lanes.length;
      this.drawAxis(pen, colour, bottom, perPs);
      this.data.lanes.forEach((lane, row) => {
        const top = TOP + row * LANE + 3;
        pen.fillStyle = colour("var(--ink)");
        pen.fillText(names[row], 0, top + LANE / 2 - 3);
        pen.save();
        pen.beginPath();
        pen.rect(this.left, top, this.room, LANE - 6);
        pen.clip();
        for (const [start, length, kind, label] of lane.spans) {
          if (start + length < this.start || start > this.end) continue;
          const x = this.left + (start - this.start) * perPs, wide = Math.max(0.6, length * perPs);
          pen.fillStyle = colour(this.data.kinds[kind].colour);
          pen.fillRect(x, top, wide > 3 ? wide - 0.6 : wide, LANE - 6);
          const from = Math.max(x, this.left), seen = Math.min(x + wide, this.left + this.room) - from;
          const words = this.data.labels[label];
          if (words && seen > 24 && pen.measureText(words).width < seen - 8) {
            pen.fillStyle = colour(this.data.kinds[kind].on);
            pen.fillText(words, from + 4, top + (LANE - 6) / 2 + 0.5);
          }
        }
        pen.restore();
      });
      const whole = this.end - this.start >= this.data.makespan;
      this.said.textContent = whole ? `${this.time(this.data.makespan)} in all; drag to move, double-click or Ctrl + wheel to zoom`
        : `${this.time(this.start)} to ${this.time(this.end)} of ${this.time(this.data.makespan)}`;
    }

    drawAxis(pen, colour, bottom, perPs) {
      const [divisor, unit] = UNITS.find(each => this.end >= each[0]) || UNITS[4];
      const rough = (this.end - this.start) / Math.max(2, this.room / 110), power = 10 ** Math.floor(Math.log10(rough));
      const step = [1, 2, 5, 10].map(each => each * power).find(each => each >= rough);
      pen.strokeStyle = colour("var(--grid)");
      pen.fillStyle = colour("var(--ink)");
      pen.textAlign = "center";
      for (let time = Math.ceil(this.start / step) * step; time <= this.end; time += step) {
        const x = this.left + (time - this.start) * perPs;
        pen.beginPath();
        pen.moveTo(x, TOP);
        pen.lineTo(x, bottom);
        pen.stroke();
        const words = String(Number((time / divisor).toPrecision(7)));
        const half = pen.measureText(words).width / 2;
        pen.fillText(words, Math.min(x, this.left + this.room + 8 - half), bottom + 12);
      }
      pen.fillStyle = colour("var(--muted)");
      pen.fillText(`simulated time [${unit}]`, this.left + this.room / 2, bottom + 32);
      pen.textAlign = "left";
    }

    clipped(pen, words, room) {
      if (pen.measureText(words).width <= room) return words;
      let end = words.length;
      while (end > 1 && pen.measureText(`${words.slice(0, end)}…`).width > room) end -= 1;
      return `${words.slice(0, end)}…`;
    }
  }

  for (const box of document.querySelectorAll(".timeline")) {
    const data = timelines[Number(box.dataset.timeline)];
    if (data) new Timeline(box, data);
  }
})();


// Draws the picture of page.html from the data in it. Times are milliseconds since the
// history began. Only what is in view is drawn, and what is too narrow to tell apart is
// drawn as one.
'use strict';
(() => {
  const source = document.getElementById('data');
  if (!source) return; // an empty history
  const data = JSON.parse(source.textContent);
  const begin = Date.parse(data.begin);
  const full = { from: 0, to: Math.max(data.end, 1) };
  const closest = 0.01; // the narrowest view
  const find = (id) => document.getElementById(id);
  const stage = find('stage'), tip = find('tip'), details = find('details');

  const phaseWords = { silence: 'silence', idle: 'idle', delay: 'delay', acquire: 'acquire', adopt: 'adopt', work_start: 'work start' };
  const kindWords = { power: 'no power', api: 'API away', kill: 'killed', cut: 'network cut', freeze: 'frozen', other: 'fault' };

  let view = { ...full };
  let width = 0;
  let rows = []; // of the picture, from the top
  let height = 0;
  let plot = { left: 0, right: 0 };
  let narrow = false;
  let items = new Map(); // what is drawn, by key
  let drag = null;
  let dragged = false; // the last time that a button was down
  let queued = false;

  // ---- Words

  const trim = (x, digits) => x.toFixed(digits).replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '');

  // span writes a length of time; step is how exact it must be.
  function span(ms, step = 1) {
    ms = Math.round(ms * 1000) / 1000;
    const digits = step < 1 ? 6 : 3; // of seconds
    if (ms < 0) return '\u2212' + span(-ms, step);
    if (ms === 0) return '0 s';
    if (ms < 1000 && step < 100) return trim(ms, 3) + ' ms';
    if (ms < 60e3) return trim(ms / 1000, digits) + ' s';
    const parts = [];
    let rest = ms;
    for (const [size, unit] of [[86400e3, ' d'], [3600e3, ' h'], [60e3, ' min']]) {
      const n = Math.floor(rest / size);
      if (n || parts.length) parts.push(n + unit);
      rest -= n * size;
    }
    const seconds = trim(rest / 1000, digits);
    if (seconds !== '0') parts.push(seconds + ' s');
    return parts.join(' ').replace(/( 0 (h|min))+$/, '');
  }

  // What JavaScript's dates leave out.
  const micros = Number((/\.(\d+)/.exec(data.begin)?.[1] || '').padEnd(6, '0').slice(3, 6));
  const microsOf = (ms) => Math.round(ms * 1000) + micros; // since the millisecond in which the history began
  const dateOf = (ms) => new Date(begin + Math.floor(microsOf(ms) / 1000)).toISOString();

  // clock writes a time of day in UTC; step says whether it needs a date or fractions.
  function clock(ms, step) {
    const iso = dateOf(ms);
    if (step >= 86400e3) return iso.slice(5, 10);
    if (step >= 60e3) return full.to > 86400e3 ? iso.slice(5, 16).replace('T', ' ') : iso.slice(11, 16);
    if (step >= 1000) return iso.slice(11, 19);
    return iso.slice(11, 23) + (step < 1 ? String(microsOf(ms) % 1000).padStart(3, '0') : '');
  }

  const when = (ms) => '+' + span(ms) + ' (' + dateOf(ms).slice(0, 23).replace('T', ' ') + ' UTC)';

  const pen = document.createElement('canvas').getContext('2d');
  const widths = new Map();
  function textWidth(text, small) {
    const key = (small ? 's' : 'n') + text;
    if (!widths.has(key)) {
      if (widths.size > 20000) widths.clear();
      pen.font = (small ? 11 : 12) + 'px system-ui, "DejaVu Sans", sans-serif';
      widths.set(key, pen.measureText(text).width);
    }
    return widths.get(key);
  }

  // fitted returns the first of the texts that has room, or the last one cut short.
  function fitted(texts, room, small) {
    for (const t of texts) if (textWidth(t, small) <= room) return t;
    const last = texts.at(-1);
    for (let n = last.length - 1; n > 2; n--) {
      const cut = last.slice(0, n).trimEnd() + '\u2026';
      if (textWidth(cut, small) <= room) return cut;
    }
    return '';
  }

  // ---- What can be pointed at: a title, lines, and where it is in time

  const zoneName = (z) => data.zones[z] || 'zone unknown';
  const laneLines = (l) => [['candidate', l.name], ['zone', zoneName(l.zone)], ['lock', data.groups[l.group]]];

  function termItem(t, n) {
    const l = data.lanes[t.lane];
    return {
      key: 'term-' + n, row: 'term-' + n, title: l.name + ' leads', from: t.from, to: t.to,
      lines: [...laneLines(l), ['token', t.token], ['cause', t.cause], ['from', when(t.from)],
        ['to', t.open ? 'goes on' : when(t.to)], ['lasted', span(t.to - t.from)], ['ended', t.ended]],
    };
  }

  function failoverItem(f, n) {
    const l = data.lanes[f.lane], from = f.phases[0].from, to = f.phases.at(-1).to;
    return {
      key: 'failover-' + n, row: 'failover-' + n, title: 'Failover to ' + l.name, from, to,
      lines: [...laneLines(l), ['before', f.previous], ['token', f.token], ['cause', f.cause], ['from', when(from)], ['to', when(to)],
        ['in all', span(to - from)], ...f.phases.map((p) => [phaseWords[p.name], span(p.to - p.from)])],
    };
  }

  function faultItem(f, n) {
    const where = f.zone >= 0 ? 'zone ' + zoneName(f.zone) : f.lane >= 0 ? data.lanes[f.lane].name : 'everywhere';
    const instant = f.from === f.to;
    return {
      key: 'fault-' + n, row: 'fault-' + n, title: f.text || kindWords[f.kind], from: f.from, to: f.to,
      lines: [['fault', kindWords[f.kind]], ['where', where], [instant ? 'at' : 'from', when(f.from)],
        ['to', instant ? '' : f.open ? 'goes on' : when(f.to)], ['lasted', instant ? '' : span(f.to - f.from)]],
    };
  }

  function expiryItem(e, n) {
    const l = data.lanes[e.lane];
    return { key: 'expiry-' + n, row: 'expiry-' + n, title: 'The lease of ' + l.name + ' ends', from: e.at, to: e.at, lines: [...laneLines(l), ['at', when(e.at)]] };
  }

  function noteItem(x, n) {
    const lines = x.lane >= 0 ? laneLines(data.lanes[x.lane]) : [];
    return { key: 'note-' + n, row: 'note-' + n, title: x.text, from: x.at, to: x.at, lines: [...lines, ['at', when(x.at)]] };
  }

  function overlapItem(o, n) {
    return {
      key: 'overlap-' + n, row: 'term-' + o.term, title: 'Two lead at a time', from: o.from, to: o.to,
      lines: [['lock', data.groups[o.group]], ['leaders', o.leaders.map((l) => data.lanes[l].name).join(' and ')],
        ['from', when(o.from)], ['to', when(o.to)], ['lasted', span(o.to - o.from)]],
    };
  }

  function manyItem(what, lane, many) {
    const from = many[0].from, to = many.at(-1).to;
    return {
      key: 'many-' + what + '-' + lane + '-' + many[0].n, title: many.length + ' ' + what + ' (zoom in to tell them apart)', from, to, many: true,
      lines: [...laneLines(data.lanes[lane]), ['from', when(from)], ['to', when(to)]],
    };
  }

  // ---- By lane, in the order of time

  const lanes = data.lanes.map((l, n) => ({ ...l, n, terms: [], failovers: [], expiries: [], notes: [], faults: [] }));
  const everywhere = { notes: [], faults: [] };
  const zones = data.zones.map((_, z) => ({ faults: [], lanes: lanes.filter((l) => l.zone === z).sort((a, b) => a.group - b.group || a.n - b.n) }));
  data.terms.forEach((t, n) => lanes[t.lane].terms.push({ ...t, n }));
  data.failovers.forEach((f, n) => lanes[f.lane].failovers.push({ ...f, n, from: f.phases[0].from, to: f.phases.at(-1).to }));
  data.expiries.forEach((e, n) => lanes[e.lane].expiries.push({ ...e, n, from: e.at, to: e.at }));
  data.notes.forEach((x, n) => (lanes[x.lane] || everywhere).notes.push({ ...x, n, from: x.at, to: x.at }));
  data.faults.forEach((f, n) => (f.zone >= 0 ? zones[f.zone] : f.lane >= 0 ? lanes[f.lane] : everywhere).faults.push({ ...f, n }));

  // inView returns those of a sorted list that the view shows. Their ends are sorted too,
  // as terms of a lane follow each other.
  function inView(list) {
    let low = 0, high = list.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (list[mid].to < view.from) low = mid + 1; else high = mid;
    }
    const shown = [];
    for (let i = low; i < list.length && list[i].from <= view.to; i++) shown.push(list[i]);
    return shown;
  }

  // grouped joins neighbors that are narrower than least and touch on the screen.
  function grouped(list, least) {
    const groups = [];
    for (const one of list) {
      const a = x(one.from), b = Math.max(x(one.to), a + 1), last = groups.at(-1);
      if (last && b - a < least && last.small && a < last.b + 2) {
        last.b = b;
        last.all.push(one);
      } else groups.push({ a, b, small: b - a < least, all: [one] });
    }
    return groups;
  }

  // ---- Where things are

  const x = (t) => plot.left + (t - view.from) / (view.to - view.from) * (plot.right - plot.left);
  const timeAt = (px) => view.from + (px - plot.left) / (plot.right - plot.left) * (view.to - view.from);
  const clamp = (v, low, high) => Math.min(Math.max(v, low), high);

  function arrange() {
    narrow = width < 640;
    plot = { left: narrow ? 10 : 190, right: width - 12 };
    rows = [];
    let y = 24;
    const add = (row, h) => { rows.push({ ...row, y, h }); y += h; };
    if (data.overlaps.length) add({ what: 'overlaps', name: 'two lead at a time' }, narrow ? 46 : 28);
    if (everywhere.notes.length) add({ what: 'notes', name: 'notes' }, narrow ? 40 : 24);
    if (everywhere.faults.length) add({ what: 'everywhere', name: 'everywhere' }, narrow ? 40 : 24);
    zones.forEach((z, n) => {
      add({ what: 'zone', zone: n }, narrow ? 40 : 24);
      z.lanes.forEach((l) => add({ what: 'lane', lane: l }, narrow ? 62 : 46));
    });
    height = y + 24;
  }

  const barTop = (row) => row.y + (narrow ? 18 : 4);
  const barHeight = 20, stripHeight = 14;
  const zoneArea = (zone) => {
    const own = rows.filter((r) => r.zone === zone || r.lane?.zone === zone);
    return { y: own[0].y, h: own.at(-1).y + own.at(-1).h - own[0].y };
  };
  const near = (y, h) => {
    const top = stage.getBoundingClientRect().top + y;
    return top < 1.5 * innerHeight && top + h > -0.5 * innerHeight;
  };

  // ---- Drawing

  function el(name, attributes, ...children) {
    const e = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
    e.append(...children);
    return e;
  }
  const text = (px, py, words, kind = '') => el('text', { x: px, y: py, class: kind }, words);
  const box = (a, y, w, h, kind, more) => el('rect', { x: a, y, width: Math.max(w, 0), height: h, class: kind, ...more });

  function item(about, ...children) {
    items.set(about.key, about);
    const label = about.title + '. ' + about.lines.filter((l) => l[1]).map((l) => l[0] + ' ' + l[1]).join(', ');
    return el('g', { class: 'item', tabindex: 0, role: 'button', 'data-key': about.key, 'aria-label': label },
      ...children);
  }

  const patterns = {
    power: () => [el('path', { d: 'M-2 10L10 -2M6 18L18 6M-2 2L2 -2M-2 18L18 -2', class: 'stroke' })],
    api: () => [el('circle', { cx: 4, cy: 4, r: 1.6, class: 'dot' }), el('circle', { cx: 12, cy: 12, r: 1.6, class: 'dot' })],
    cut: () => [el('path', { d: 'M0 0L16 16M16 0L0 16', class: 'stroke' })],
    freeze: () => [el('path', { d: 'M0 4H16M0 12H16', class: 'stroke' })],
    kill: () => [el('path', { d: 'M4 0V16M12 0V16', class: 'stroke' })],
    other: () => [el('path', { d: 'M3 8H13M8 3V13', class: 'stroke' })],
  };
  const definitions = () => el('defs', {}, ...Object.entries(patterns).map(([kind, draw]) =>
    el('pattern', { id: 'fault-' + kind, width: 16, height: 16, patternUnits: 'userSpaceOnUse' }, ...draw())));

  const steps = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3,
    60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3, 7200e3, 10800e3, 21600e3, 43200e3, 86400e3, 172800e3, 604800e3, 1209600e3, 2592000e3, 31536000e3];

  function drawAxis() {
    const g = el('g');
    const room = (s) => Math.max(70, 30 + textWidth('+' + span(Math.floor(view.to / s) * s - s / 5, s), true)) * (view.to - view.from) / s;
    const step = steps.find((s) => room(s) <= plot.right - plot.left) || steps.at(-1);
    const first = Math.ceil(view.from / step);
    for (let i = first; i * step <= view.to; i++) {
      const t = i * step, px = x(t), above = '+' + span(t, step), below = clock(t, step);
      g.append(el('line', { x1: px, x2: px, y1: 20, y2: height - 20, class: 'grid' }));
      const inside = (words) => clamp(px, textWidth(words, true) / 2 + 4, width - 4 - textWidth(words, true) / 2);
      g.append(text(inside(above), 14, above, 'small faint middle'), text(inside(below), height - 7, below, 'small faint middle'));
    }
    if (!narrow) g.append(text(10, 14, 'since the beginning', 'small faint'), text(10, height - 7, 'time of day, UTC', 'small faint'));
    return g;
  }

  function drawNames() {
    const g = el('g', { class: 'names' });
    for (const r of rows) {
      if (!near(r.y, r.h)) continue;
      if (r.what === 'zone') g.append(text(10, r.y + 16, fitted([zoneName(r.zone) === 'zone unknown' ? 'zone unknown' : 'zone ' + zoneName(r.zone)], 0.87 * (narrow ? width - 20 : 172)), 'strong'));
      if (r.name) g.append(text(10, r.y + 16, r.name, r.what === 'overlaps' ? 'strong told' : 'strong'));
      if (r.what === 'lane') drawName(g, r);
    }
    return g;
  }

  function drawName(g, r) {
    const group = data.groups[r.lane.group];
    if (!narrow) {
      g.append(text(18, r.y + 18, fitted([r.lane.name], 164)), text(18, r.y + 34, fitted([group], 164, true), 'small faint'));
      return;
    }
    const name = fitted([r.lane.name], (width - 30) * 0.65);
    g.append(text(12, r.y + 13, name), text(20 + textWidth(name), r.y + 13, fitted([group], width - 36 - textWidth(name), true), 'small faint'));
  }

  function drawBands() {
    const g = el('g');
    for (const r of rows) {
      if (r.what !== 'lane') g.append(box(0, r.y, width, r.h, 'band'));
      g.append(el('line', { x1: 0, x2: width, y1: r.y, y2: r.y, class: 'grid' }));
    }
    return g;
  }

  // drawFaults shades an area; told is the row that has room for their names.
  function drawFaults(g, faults, area, told) {
    const names = el('g'); // above all shades
    let free = told ? plot.left : Infinity; // where the next name may begin
    for (const f of faults) {
      if (f.to < view.from || f.from > view.to) continue;
      const a = Math.max(x(f.from), plot.left - 10), b = Math.max(Math.min(x(f.to), plot.right + 10), a + (f.from === f.to ? 0 : 2));
      const about = faultItem(f, f.n), parts = [];
      if (f.from === f.to) {
        const y = told ? told.y + told.h - 10 : area.y + area.h - 11;
        parts.push(box(a - 6, area.y, 12, area.h, 'hit'), el('path', { d: `M${a} ${area.y}V${area.y + area.h}`, class: 'frame' }),
          el('path', { d: `M${a - 5} ${y - 5}l10 10m0 -10l-10 10`, class: 'stroke' }));
      } else {
        parts.push(box(a, area.y, b - a, area.h, 'shade'), box(a, area.y, b - a, area.h, '', { fill: `url(#fault-${f.kind})`, opacity: 0.45 }),
          box(a, area.y, b - a, area.h, 'frame'));
      }
      g.append(item(about, ...parts));
      const at = Math.max(a + (f.from === f.to ? 8 : 4), free);
      free = drawFaultName(names, about.title, told, at, plot.right);
    }
    g.append(...names.children);
  }

  function drawFaultName(g, words, told, at, right) {
    const short = told ? fitted([words], right - at, true) : '';
    if (!short || textWidth(short, true) < 20) return at;
    const w = textWidth(short, true);
    const y = told.y + (narrow ? 34 : 16);
    g.append(box(at - 2, y - 11, w + 4, 15, 'band', { rx: 2, 'pointer-events': 'none' }), text(at, y, short, 'small told'));
    return at + w + 10;
  }

  function drawTerms(g, r) {
    const y = barTop(r), kind = r.lane.group % 3;
    for (const { a, b, all } of grouped(inView(r.lane.terms), 3)) {
      const left = Math.max(a, plot.left - 10), w = Math.min(b, plot.right + 10) - left;
      if (w <= 0) continue;
      const t = all[0], about = all.length > 1 ? manyItem('terms', r.lane.n, all) : termItem(t, t.n);
      const parts = [box(left, y, w, barHeight, `mark g${kind}${w < 4 ? ' thin' : ''}`, { rx: w > 8 ? 3 : 0 })];
      const from = Math.max(left, plot.left), room = Math.min(b, plot.right) - from - 12;
      const cause = t.cause ? ', ' + t.cause : '', number = t.token ? ' with token ' + t.token : '';
      const words = all.length > 1 ? '' : room > 24 ? fitted(['leads' + number + cause, 'leads' + number, 'leads', ''], room) : '';
      if (words) parts.push(text(from + 6, y + 14.5, words, `on-g${kind}`));
      g.append(item(about, ...parts));
    }
  }

  function drawOverlaps(g, r) {
    data.overlaps.forEach((o, n) => {
      if (o.to < view.from || o.from > view.to) return;
      const a = Math.max(x(o.from), plot.left - 10), b = Math.max(Math.min(x(o.to), plot.right + 10), a + 2);
      g.append(item(overlapItem(o, n), box(a, r.y + r.h - 24, b - a, 20, 'mark idle')));
    });
  }

  function drawFailovers(g, r) {
    const y = barTop(r) + barHeight + 3;
    for (const { a, b, all } of grouped(inView(r.lane.failovers), 4)) {
      const f = all[0], left = Math.max(a, plot.left - 10), right = Math.min(b, plot.right + 10);
      if (right <= left) continue;
      const about = all.length > 1 ? manyItem('failovers', r.lane.n, all) : failoverItem(f, f.n);
      const parts = all.length > 1 ? [box(left, y, right - left, stripHeight, 'mark silence')] : f.phases.map((p) => drawPhase(p, y)).flat();
      g.append(item(about, ...parts));
    }
  }

  function drawPhase(p, y) {
    const a = Math.max(x(p.from), plot.left - 10), b = Math.min(Math.max(x(p.to), x(p.from) + 0.7), plot.right + 10);
    if (b <= a) return [];
    const from = Math.max(a, plot.left), room = Math.min(b, plot.right) - from - 8, name = phaseWords[p.name];
    const parts = [box(a, y, b - a, stripHeight, (b - a > 3 ? 'mark ' : '') + p.name)];
    const words = room > 20 ? fitted([name + ' ' + span(Math.round(p.to - p.from)), name, ''], room, true) : '';
    if (words) parts.push(text(from + 4, y + 11, words, 'small on-phase'));
    return parts;
  }

  // drawInstants draws the ends of leases and the notes of a lane.
  function drawInstants(g, r) {
    const groups = grouped(inView(r.lane.expiries), 4);
    for (const [i, { a, all }] of groups.entries()) {
      const apart = Math.min(a - (groups[i - 1]?.a ?? -Infinity), (groups[i + 1]?.a ?? Infinity) - a) > 16;
      const e = all[0], about = all.length > 1 ? manyItem('ends of leases', r.lane.n, all) : expiryItem(e, e.n);
      g.append(item(about, box(a - 6, r.y, 12, r.h, 'hit'),
        el('line', { x1: a, x2: a, y1: r.y + 2, y2: r.y + r.h - 2, class: 'expiry' }), ...(apart ? [diamond(a, barTop(r) + barHeight / 2)] : [])));
    }
    drawNotes(g, r.lane.notes, barTop(r) + barHeight + 10, -1, r.lane.n);
  }
  const diamond = (a, y) => el('path', { d: `M${a} ${y - 6}l6 6l-6 6l-6 -6z`, class: 'diamond' });

  // drawNotes draws notes; those whose words have room at y = words are told.
  function drawNotes(g, notes, y, words, lane) {
    let free = plot.left;
    const groups = grouped(inView(notes), 4);
    for (const [i, { a, all }] of groups.entries()) {
      const n = all[0], about = all.length > 1 && lane >= 0 ? manyItem('notes', lane, all) : noteItem(n, n.n);
      g.append(item(about, el('circle', { cx: a, cy: y, r: 5, class: 'note' })));
      const at = Math.max(a + 9, free), room = Math.min(plot.right, (groups[i + 1]?.a ?? Infinity) - 8) - at;
      const short = words < 0 || room < 30 ? '' : fitted([n.text], room, true);
      if (!short || a + 9 < free) continue;
      g.append(text(at, words, short, 'small'));
      free = at + textWidth(short, true) + 12;
    }
  }

  function drawRows() {
    const g = el('g', { 'clip-path': 'url(#plot)' });
    for (const r of rows) if (r.what === 'everywhere') drawFaults(g, everywhere.faults, { y: r.y, h: height - 24 - r.y }, r);
    for (const r of rows) {
      if (r.what === 'zone' && near(zoneArea(r.zone).y, zoneArea(r.zone).h)) drawFaults(g, zones[r.zone].faults, zoneArea(r.zone), r);
      if (r.what === 'notes') drawNotes(g, everywhere.notes, r.y + r.h - 12, r.y + r.h - 8, -1);
      if (r.what === 'overlaps') drawOverlaps(g, r);
      if (r.what !== 'lane' || !near(r.y, r.h)) continue;
      drawFaults(g, r.lane.faults, { y: r.y + 1, h: r.h - 2 }, null);
      drawTerms(g, r);
      drawFailovers(g, r);
      drawInstants(g, r);
    }
    return g;
  }

  function draw() {
    queued = false;
    if (!width) return;
    const focused = document.activeElement?.closest?.('.item')?.dataset.key;
    items = new Map();
    const clip = el('clipPath', { id: 'plot' }, box(plot.left - 7, 0, plot.right - plot.left + 14, height, ''));
    const svg = el('svg', { viewBox: `0 0 ${width} ${height}`, role: 'group', 'aria-label': 'Zones, candidates and who led' },
      definitions(), clip, drawBands(), drawAxis(), drawRows(), drawNames());
    stage.replaceChildren(svg);
    find('range').textContent = '+' + span(view.from) + ' to +' + span(view.to) + ' (' + span(view.to - view.from) + ')';
    if (focused) refocus(focused);
  }

  // refocus gives the focus back after drawing.
  function refocus(key) {
    const again = stage.querySelector(`.item[data-key="${key}"]`);
    (again || stage).focus({ preventScroll: true });
    if (!again) hideTip();
  }

  function redraw() {
    if (queued) return;
    queued = true;
    requestAnimationFrame(draw);
  }

  // ---- Moving

  function show(from, to) {
    const length = clamp(to - from, closest, full.to);
    from = clamp(from, 0, full.to - length);
    view = { from, to: from + length };
    redraw();
  }
  function zoom(factor, at = middle()) {
    const length = clamp((view.to - view.from) * factor, closest, full.to);
    const share = (at - view.from) / (view.to - view.from);
    show(at - length * share, at + length * (1 - share));
  }
  // middle is that of the view, or of what is in view of the item that has the focus.
  function middle() {
    const about = aboutOf(document.activeElement) || view;
    return (clamp(about.from, view.from, view.to) + clamp(about.to, view.from, view.to)) / 2;
  }
  const move = (share) => show(view.from + (view.to - view.from) * share, view.to + (view.to - view.from) * share);
  const all = () => show(full.from, full.to);
  function zoomTo(about) {
    const margin = Math.max((about.to - about.from) * 0.2, about.many ? closest : about.from === about.to ? 500 : closest);
    show(about.from - margin, about.to + margin);
  }

  // ---- Tips and details

  const lineElements = (lines) => lines.filter((l) => l[1]).flatMap(([k, v]) => {
    const dt = document.createElement('dt'), dd = document.createElement('dd');
    dt.textContent = k;
    dd.textContent = v;
    return [dt, dd];
  });

  function showTip(about, px, py) {
    const title = document.createElement('b'), list = document.createElement('dl');
    title.textContent = about.title;
    list.append(...lineElements(about.lines));
    tip.replaceChildren(title, list);
    tip.hidden = false;
    const w = tip.offsetWidth, h = tip.offsetHeight;
    tip.style.left = clamp(px + 14, 8, Math.max(8, innerWidth - w - 8)) + 'px';
    tip.style.top = (py + 18 + h < innerHeight ? py + 18 : Math.max(8, py - h - 14)) + 'px';
  }
  const hideTip = () => { tip.hidden = true; };
  const aboutOf = (target) => items.get(target.closest?.('.item')?.dataset.key);

  function open(about) {
    hideTip();
    find('details-title').textContent = about.title;
    details.querySelector('dl').replaceChildren(...lineElements(about.lines));
    details.dataset.key = about.key;
    find('row').hidden = !about.row;
    find('row').href = '#' + (about.row || 'tables');
    details.about = about;
    details.showModal();
  }
  find('close').addEventListener('click', () => details.close());
  find('row').addEventListener('click', () => { delete details.dataset.key; details.close(); });
  find('zoom-to').addEventListener('click', () => { zoomTo(details.about); details.close(); });
  details.addEventListener('close', () => { if (details.dataset.key) refocus(details.dataset.key); });

  // ---- Keys

  const keys = {
    ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), '+': () => zoom(0.5), '=': () => zoom(0.5),
    '-': () => zoom(2), '_': () => zoom(2), 0: all, Escape: hideTip,
  };
  stage.addEventListener('keydown', (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const about = aboutOf(e.target);
    if (about && (e.key === 'Enter' || e.key === ' ')) open(about);
    else if (keys[e.key]) keys[e.key]();
    else return;
    e.preventDefault();
  });
  stage.addEventListener('focusin', (e) => {
    const about = aboutOf(e.target);
    if (!about || !e.target.matches(':focus-visible')) return;
    const r = e.target.getBoundingClientRect();
    showTip(about, clamp(r.left, 0, innerWidth), r.bottom - 10);
  });
  stage.addEventListener('focusout', hideTip);

  // ---- Pointer

  const inSVG = (e) => e.clientX - stage.getBoundingClientRect().left - stage.clientLeft;
  const setSelection = (a, b) => {
    let s = stage.querySelector('.selection');
    if (!s) stage.firstChild.append(s = box(0, 20, 0, height - 40, 'selection'));
    s.setAttribute('x', Math.min(a, b));
    s.setAttribute('width', Math.abs(b - a));
  };
  stage.addEventListener('pointerdown', (e) => {
    if (e.button !== 0) return;
    drag = { at: inSVG(e), touch: e.pointerType === 'touch', from: view.from, to: view.to, moved: false };
  });
  addEventListener('pointermove', (e) => {
    if (!drag) return hover(e);
    const px = inSVG(e);
    if (Math.abs(px - drag.at) > 5) drag.moved = true;
    if (!drag.moved) return;
    hideTip();
    if (drag.touch) {
      const by = (px - drag.at) / (plot.right - plot.left) * (drag.to - drag.from);
      show(drag.from - by, drag.to - by);
    } else setSelection(clamp(drag.at, plot.left, plot.right), clamp(px, plot.left, plot.right));
  });
  function hover(e) {
    if (details.open || !stage.contains(e.target)) return;
    const about = aboutOf(e.target);
    if (about) showTip(about, e.clientX, e.clientY); else hideTip();
  }
  addEventListener('pointerup', (e) => {
    const done = drag;
    drag = null;
    if (!done) return;
    dragged = done.moved;
    if (!dragged || done.touch) return;
    const [a, b] = [done.at, inSVG(e)].map((px) => timeAt(clamp(px, plot.left, plot.right))).sort((p, q) => p - q);
    if (b > a) show(a, b); else redraw();
  });
  addEventListener('pointercancel', () => { drag = null; redraw(); });
  stage.addEventListener('click', (e) => {
    const about = aboutOf(e.target);
    if (about && !dragged) open(about);
  });
  stage.addEventListener('pointerleave', () => { if (!drag) hideTip(); });
  stage.addEventListener('dblclick', (e) => { if (!aboutOf(e.target)) all(); });
  stage.addEventListener('wheel', (e) => {
    const length = view.to - view.from;
    if (e.ctrlKey || (e.deltaY > 0 && length >= full.to && !e.deltaX)) return; // the browser's own zoom, or the page scrolls on
    e.preventDefault();
    if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) move(e.deltaX / (plot.right - plot.left));
    else if (e.shiftKey) move(e.deltaY / (plot.right - plot.left));
    else zoom(Math.pow(1.0015, e.deltaY), timeAt(clamp(inSVG(e), plot.left, plot.right)));
  }, { passive: false });

  for (const [id, act] of Object.entries({ in: keys['+'], out: keys['-'], earlier: keys.ArrowLeft, later: keys.ArrowRight, reset: all })) {
    find(id).addEventListener('click', act);
  }

  // ---- Light and dark

  const isDark = () => (document.documentElement.dataset.theme || (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')) === 'dark';
  const nameTheme = () => { find('theme').textContent = isDark() ? 'Light' : 'Dark'; };
  find('theme').addEventListener('click', () => { document.documentElement.dataset.theme = isDark() ? 'light' : 'dark'; nameTheme(); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', nameTheme);

  // ---- Legend

  function drawLegend() {
    const entries = data.groups.map((g, n) => [(g || 'a candidate') + ' leads', box(1, 1, 24, 12, `mark g${n % 3}`, { rx: 2 })]);
    for (const p of Object.keys(phaseWords)) {
      if (data.failovers.some((f) => f.phases.some((q) => q.name === p))) entries.push([phaseWords[p], box(1, 1, 24, 12, 'mark ' + p)]);
    }
    for (const k of Object.keys(kindWords)) {
      const of = data.faults.filter((f) => f.kind === k);
      if (of.some((f) => f.from < f.to)) entries.push([kindWords[k], box(1, 1, 24, 12, 'shade'), box(1, 1, 24, 12, 'frame', { fill: 'none' }), box(1, 1, 24, 12, '', { fill: `url(#fault-${k})` })]);
      if (of.some((f) => f.from === f.to)) entries.push([kindWords[k], el('path', { d: 'M8 2l10 10m0 -10l-10 10', class: 'stroke' })]);
    }
    if (data.expiries.length) entries.push(['a lease ends', el('line', { x1: 13, x2: 13, y1: 0, y2: 14, class: 'expiry' }), diamond(13, 7)]);
    if (data.notes.length) entries.push(['note', el('circle', { cx: 13, cy: 7, r: 5, class: 'note' })]);
    find('legend').append(...entries.map(([words, ...shapes]) => {
      const li = document.createElement('li');
      li.append(el('svg', { width: 26, height: 14, 'aria-hidden': 'true' }, ...shapes), words);
      return li;
    }));
  }

  // ---- Beginning

  drawLegend();
  nameTheme();
  stage.append(el('svg'));
  new ResizeObserver(() => {
    const now = Math.round(stage.clientWidth);
    if (!now || now === width) return;
    width = now;
    arrange();
    redraw();
  }).observe(stage);
  if (data.lanes.length > 20) addEventListener('scroll', redraw, { passive: true });
})();

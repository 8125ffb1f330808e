// The page of kubectl candor web. It needs no other file and no build step. Names from the cluster are only ever set as text.

const $ = id => document.getElementById(id);
const uses = ['reserved', 'shared', 'fractional', 'exclusive']; // by the bits of a CPU (kube/nodemap)
const states = ['', 'no report yet', 'given back: Candor allocates no CPUs here', 'unusable report: open the node for the reason'];
const removed = 255, rowsPerPage = 100;

// model has the nodes by name, what the user sees of them, and the server's clock. view is the part of the state that the URL has.
const model = {nodes: new Map(), revision: 0, sorted: null, shown: [], matches: null, throttled: null, clock: 0};
const view = {view: 'map', color: 'use', order: 'name', q: '', node: '', pod: ''}, defaults = {...view};

// el returns an element. Properties are set, children are elements or texts.
function el(tag, properties, ...children) {
  const e = Object.assign(document.createElement(tag), properties);
  e.append(...children);
  return e;
}
// name returns a name from the cluster as an element that isolates its direction of writing. Tables break only long names.
const name = text => el('bdi', {className: text.length > 48 ? '' : 'short'}, text);
const number = n => n.toLocaleString('en');
const count = (n, one) => `${number(n)} ${one}${n === 1 ? '' : 's'}`;
const percent = share => `${(100 * share).toLocaleString('en', {maximumFractionDigits: 1})}\u00a0%`;
const cpus = milli => (milli / 1000).toLocaleString('en', {maximumFractionDigits: 3});

// table returns a table. A column has a title, a cell (a row's text or element) and isNumber.
function table(caption, columns, rows) {
  const style = c => c.isNumber ? 'number' : '', head = el('tr', {}, ...columns.map(c => el('th', {scope: 'col', className: style(c)}, c.title)));
  const body = rows.map(row => el('tr', {}, ...columns.map(c => el('td', {className: style(c)}, c.cell(row)))));
  return el('div', {className: 'scroll'}, el('table', {ariaLabel: caption}, el('thead', {}, head), el('tbody', {}, ...body)));
}

// pagedTable returns a table of which a page of rows is visible.
function pagedTable(caption, columns, rows, page = 0, turn = null) {
  const box = el('div', {}), last = Math.max(0, Math.ceil(rows.length / rowsPerPage) - 1);
  const show = (to, focus) => {
    page = Math.min(Math.max(to, 0), last);
    turn?.(page);
    box.replaceChildren(table(caption, columns, rows.slice(page * rowsPerPage, (page + 1) * rowsPerPage)));
    if (last === 0) return;
    const step = (text, by) => el('button', {type: 'button', disabled: page + by < 0 || page + by > last, onclick: () => show(page + by, by)}, text);
    const steps = [step('Previous', -1), step('Next', 1)];
    box.append(el('div', {className: 'pages'}, ...steps, `Page ${page + 1} of ${last + 1}`));
    if (focus) steps[focus < 0 ? 0 : 1].focus();
  };
  show(page);
  return box;
}
const list = (title, lines) => lines.length === 0 ? [] : [el('h3', {}, title), el('ul', {}, ...lines.map(line => el('li', {}, name(line))))];

let secret = sessionStorage.getItem('candor-token') ?? '';
// call sends a request with the token. Its error has the server's reason and, for a missing login, login.
async function call(path, options = {}) {
  const response = await fetch(path, {cache: 'no-store', credentials: 'same-origin', redirect: 'error', ...options,
    headers: secret ? {Authorization: `Bearer ${secret}`} : {}});
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  throw Object.assign(new Error(answer.error ?? `the server answers with status ${response.status}`), {login: answer.login});
}
const json = async (path, options) => (await call(path, options)).json();
const setState = (text, isError = false) => Object.assign($('state'), {textContent: text, className: isError ? 'error' : ''});
const setSecret = token => { secret = token; sessionStorage.setItem('candor-token', token); }; // of this tab only

// enter exchanges the one-time token of the address, if it has one, for the token of this tab. Then it shows the map.
async function enter() {
  const token = new URLSearchParams(location.hash.slice(1)).get('token');
  if (token) {
    history.replaceState(null, '', location.pathname);
    await json('api/session', {method: 'POST', body: JSON.stringify({token})}).then(answer => setSecret(answer.session), () => {});
  }
  follow();
}

function askLogin(error) {
  const isToken = error.login === 'token';
  $('main').hidden = true;
  $('login').hidden = false;
  $('login-fields').hidden = !isToken;
  $('login-text').textContent = isToken
    ? 'Enter a token of the cluster, such as the output of "kubectl create token NAME". Its user needs the rights of the ClusterRole candor-view.'
    : 'This address has no valid token, or the token has been used. Open the newest address that kubectl candor web has printed.';
  setState(secret && isToken ? 'The token is not valid' : '', true);
  if (isToken) $('token').focus();
}
$('login').onsubmit = event => {
  event.preventDefault();
  setSecret($('token').value.trim());
  $('token').value = '';
  follow();
};

// decode decodes a packed map; Decode of kube/nodemap is the same in Go.
function decode(buffer) {
  const data = new DataView(buffer), bytes = new Uint8Array(buffer), text = new TextDecoder();
  if (text.decode(bytes.subarray(0, 4)) !== 'CNDR' || data.getUint32(4, true) !== 1) throw new Error('the server has another version: reload the page');
  const nodes = [];
  for (let left = data.getUint32(16, true), at = 20; left > 0; left--) {
    const rest = at + 2 + bytes[at + 1], size = data.getUint16(rest, true), end = rest + 16 + ((size + 3) >> 2);
    const node = {
      name: text.decode(bytes.subarray(at + 2, rest)), state: bytes[at], cpus: size, free: data.getUint16(rest + 2, true),
      shared: data.getUint32(rest + 4, true), sensitive: data.getUint32(rest + 8, true), reported: data.getUint32(rest + 12, true),
      packed: bytes.subarray(rest + 16, end), counts: [0, 0, 0, 0],
    };
    for (let i = 0; i < size; i++) node.counts[useOf(node, i)]++;
    at = end;
    nodes.push(node);
  }
  return {revision: data.getFloat64(8, true), nodes};
}

const useOf = (node, i) => node.packed[i >> 2] >> (2 * (i & 3)) & 3;
// load reads the map of all nodes.
async function load() {
  const [info, map] = await Promise.all([json('api/info'), call('api/map').then(r => r.arrayBuffer())]);
  model.clock = info.now - Date.now() / 1000;
  const {revision, nodes} = decode(map);
  Object.assign(model, {revision, sorted: null, nodes: new Map(nodes.map(n => [n.name, n]))});
  $('cluster').textContent = info.cluster;
  $('login').hidden = true;
  $('main').hidden = false;
  [...$('color').options].find(o => o.value === 'throttled').disabled = !info.throttling;
  route();
}

// apply applies a batch of changes.
function apply(data) {
  const {revision, nodes} = decode(Uint8Array.from(atob(data), c => c.charCodeAt(0)).buffer);
  for (const n of nodes) {
    if (n.state === removed || !model.nodes.has(n.name)) model.sorted = null;
    n.state === removed ? model.nodes.delete(n.name) : model.nodes.set(n.name, n);
  }
  model.revision = revision;
  update();
  if (nodes.some(n => n.name === view.node)) refreshNode();
}

// events yields the server-sent events of an answer. EventSource could not send the token.
async function* events(body, alive) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ''; ;) {
    const {value, done} = await reader.read();
    if (done) return;
    alive();
    const blocks = (rest + value).split('\n\n');
    rest = blocks.pop();
    for (const block of blocks) {
      const field = key => block.split('\n').find(line => line.startsWith(key))?.slice(key.length).trim() ?? '';
      if (!block.startsWith(':')) yield {type: field('event:') || 'change', data: field('data:')};
    }
  }
}

let isFollowing = false;
// follow loads the map and applies the changes. It connects again after each error, except for a missing login.
async function follow() {
  if (isFollowing) return;
  isFollowing = true;
  for (let wait = 1000; ; wait = Math.min(2 * wait, 30000)) {
    let silent = 0;
    const abort = new AbortController();
    const alive = () => { clearTimeout(silent); silent = setTimeout(() => abort.abort(), 60000); }; // the server sends a line every 20 s
    try {
      if (model.revision === 0) await load();
      const response = await call(`api/events?since=${model.revision}`, {signal: abort.signal});
      setState('Live');
      for await (const event of events(response.body, alive)) {
        wait = 1000;
        if (event.type === 'reset') model.revision = 0;
        else if (event.type === 'problem') setState(event.data === '""' ? 'Live' : `The map is not current: ${JSON.parse(event.data)}`, event.data !== '""');
        else apply(event.data);
      }
    } catch (error) {
      isFollowing = !error.login;
      if (error.login) return askLogin(error);
      setState(`Not connected: ${error.message}`, true);
    } finally {
      clearTimeout(silent);
    }
    await new Promise(done => setTimeout(done, model.revision === 0 && wait === 1000 ? 0 : wait));
  }
}

const days = 86400, age = n => Math.max(0, Date.now() / 1000 + model.clock - n.reported);
// scales color a node by a value. Each bound begins a step; texts explain the steps.
const scales = {
  free: {value: n => n.free, text: n => count(n.free, 'free whole CPU'), bounds: [1, 4, 8, 16],
    texts: ['none', '1 to 3 CPUs', '4 to 7', '8 to 15', '16 and more']},
  shared: {value: n => n.sensitive ? n.shared / n.sensitive : 0, text: n => `shared time ${percent(scales.shared.value(n))}`, bounds: [1e-9, .02, .05, .1],
    texts: ['none', 'up to 2 % of the sensitive CPU time', 'up to 5 %', 'up to 10 %', 'more']},
  throttled: {value: n => model.throttled?.get(n.name) ?? -1, text: n => model.throttled?.has(n.name) ? `throttled in ${percent(model.throttled.get(n.name))} of the periods` : 'throttling unknown',
    bounds: [1e-9, .05, .25, .5], texts: ['never, or unknown', 'in up to 5 % of the periods', 'up to 25 %', 'up to 50 %', 'more']},
  age: {value: age, text: n => n.reported ? `last report ${ageText(n)} ago` : 'no report', bounds: [3600, days, 7 * days, 30 * days],
    texts: ['less than an hour', 'up to a day', 'up to a week', 'up to 30 days', 'more']},
};

function ageText(n) {
  const [unit, size] = [['day', days], ['hour', 3600], ['minute', 60]].find(([, size]) => age(n) >= size) ?? ['second', 1];
  return count(Math.floor(age(n) / size), unit);
}

const step = (scale, n) => scale.bounds.filter(b => scale.value(n) >= b).length;
const css = key => getComputedStyle(document.documentElement).getPropertyValue(`--${key}`).trim();
// rgb returns a color of the style sheet as a pixel of an ImageData, mixed with the background by a share.
function rgb(key, share = 1) {
  const part = (color, i) => parseInt(color.slice(1 + 2 * i, 3 + 2 * i), 16), color = css(key), under = css('background');
  const [red, green, blue] = [0, 1, 2].map(i => Math.round(part(color, i) * share + part(under, i) * (1 - share)));
  return (255 << 24 | blue << 16 | green << 8 | red) >>> 0;
}

function drawLegend() {
  const items = view.color === 'use'
    ? [['exclusive', 'exclusive: of a single sensitive container'], ['fractional', 'fractional: fractions of sensitive containers'],
      ['shared', 'shared by the flexible containers'], ['reserved', 'reserved: not allocated']]
    : scales[view.color].texts.map((text, i) => [`step${i}`, text]);
  if (model.shown.some(n => n.state !== 0)) items.push(['none', 'no usable report']);
  $('legend').replaceChildren(...items.map(([style, text]) => el('li', {}, el('span', {className: `swatch ${style}`}), text)));
}

const matches = n => view.q === '' || n.name.includes(view.q.toLowerCase()) || (model.matches?.has(n.name) ?? false);

// update draws the nodes before the next frame.
function update() {
  if (!update.isPending) requestAnimationFrame(draw);
  update.isPending = true;
}

const byName = new Intl.Collator('en', {numeric: true}).compare; // node-2 before node-10
// sort sorts the nodes by name, or the nodes with the highest values first.
function sort() {
  model.sorted ??= [...model.nodes.keys()].sort(byName);
  model.shown = model.sorted.map(name => model.nodes.get(name));
  const value = view.color === 'use' ? n => n.counts[3] / Math.max(1, n.cpus) : scales[view.color].value;
  if (view.order === 'value') model.shown.sort((a, b) => a.state - b.state || value(b) - value(a));
}

function draw() {
  update.isPending = false;
  sort();
  const all = model.shown, sum = [0, 0, 0, 0];
  for (const n of all) n.counts.forEach((c, use) => { sum[use] += c; });
  const total = sum[0] + sum[1] + sum[2] + sum[3], without = all.filter(n => n.state !== 0).length;
  let text = `${count(all.length, 'node')}, ${count(total, 'CPU')}: ${[3, 2, 1, 0].map(use => `${percent(sum[use] / Math.max(1, total))} ${uses[use]}`).join(', ')}.`;
  if (without > 0) text += ` ${count(without, 'node')} without a usable report.`;
  if (view.q !== '') text += ` ${count(all.filter(matches).length, 'node')} found.`;
  if (all.length === 0) text = 'No reports: candor nri --publish writes them on each node.';
  $('summary').textContent = text;
  $('canvas').ariaLabel = `Map of the nodes. ${text} The view Table has the same for keyboards and screen readers.`;
  $('field').hidden = view.view !== 'map';
  $('table').hidden = view.view !== 'table';
  drawLegend();
  if ($('all').hidden) return;
  view.view === 'map' ? drawField() : drawTable();
}

// place computes the size of a node's box in device pixels: the largest with which all nodes fit. A CPU has 2 to 48 pixels of the page.
function place() {
  const field = $('field'), ratio = devicePixelRatio || 1, n = model.shown.length;
  const most = Math.max(1, ...model.shown.map(n => n.cpus)), columns = Math.ceil(Math.sqrt(most)), rows = Math.ceil(most / columns);
  const width = Math.floor(field.clientWidth * ratio), height = Math.floor(field.clientHeight * ratio);
  for (let cell = Math.round(ratio * Math.min(48, Math.max(14, 240 / columns))); ; cell--) {
    const isLast = cell <= Math.ceil(2 * ratio), gap = Math.max(3, Math.round(Math.min(cell / 2, 12 * ratio)));
    const label = columns * cell >= 88 * ratio ? Math.round(18 * ratio) : 0;
    const w = columns * cell, h = rows * cell + label, perRow = Math.max(1, Math.floor((width - gap) / (w + gap)));
    const all = Math.ceil(n / perRow) * (h + gap) + gap;
    if (all <= height || isLast) return {ratio, width, height, cell, columns, gap, label, w, h, perRow, all};
  }
}

let at = null; // the last result of place
function drawField() {
  at = place();
  if (at.width <= 0 || at.height <= 0) return;
  const field = $('field'), canvas = $('canvas'), {ratio, width, height, cell, columns, gap, label, w, h, perRow} = at;
  $('space').style.height = `${Math.max(at.all, height) / ratio}px`;
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, {width, height});
  Object.assign(canvas.style, {width: `${width / ratio}px`, height: `${height / ratio}px`});
  const context = canvas.getContext('2d', {alpha: false}), image = context.createImageData(width, height), pixels = new Uint32Array(image.data.buffer);
  const colors = share => ({uses: uses.map(u => rgb(u, share)), steps: [0, 1, 2, 3, 4].map(i => rgb(`step${i}`, share)), none: rgb('none', share)});
  const full = colors(1), faded = colors(.2), scale = scales[view.color], inner = cell >= 5 ? cell - 1 : cell;
  pixels.fill(rgb('background'));
  const fill = (x, y, w, h, color) => {
    for (let row = Math.max(0, y); row < Math.min(height, y + h); row++) pixels.fill(color, row * width + x, row * width + Math.min(width, x + w));
  };
  const hatch = (x, y, w, h, color) => { // the node has no usable report
    for (let i = 0; i < h; i++) for (let j = (7 - i % 7) % 7; j < w; j += 7) fill(x + j, y + i, Math.min(2, w - j), 1, color);
  };
  const top = Math.round(field.scrollTop * ratio), first = Math.max(0, Math.floor((top - gap) / (h + gap))) * perRow, visible = [];
  for (let i = first; i < model.shown.length; i++) {
    const n = model.shown[i], x = gap + i % perRow * (w + gap), y = gap + Math.floor(i / perRow) * (h + gap) - top;
    if (y > height) break;
    const isFound = matches(n), color = isFound ? full : faded;
    visible.push([n, x, y, isFound]);
    if (n.state !== 0) hatch(x, y + label, w, h - label, color.none);
    else if (scale) fill(x, y + label, w, h - label, color.steps[step(scale, n)]);
    else for (let c = 0; c < n.cpus; c++) fill(x + c % columns * cell, y + label + Math.floor(c / columns) * cell, inner, inner, color.uses[useOf(n, c)]);
  }
  context.putImageData(image, 0, 0);
  if (performance.getEntriesByName('drawn').length === 0) performance.mark('drawn'); // make bench-web reads it
  if (label > 0) drawLabels(context, visible);
}

// drawLabels writes the names above the boxes and, with a scale, the values into the boxes.
function drawLabels(context, visible) {
  const {ratio, label, w, h} = at, font = '"Segoe UI", Roboto, "DejaVu Sans", sans-serif', scale = scales[view.color];
  const values = {free: n => String(n.free), shared: n => percent(scale.value(n)), throttled: n => scale.value(n) < 0 ? '?' : percent(scale.value(n)), age: ageText};
  context.direction = 'ltr';
  for (const [n, x, y, isFound] of visible) {
    context.globalAlpha = isFound ? 1 : .35;
    context.font = `${12 * ratio}px ${font}`;
    context.textAlign = 'left';
    context.fillStyle = css('text');
    context.fillText(shorten(context, n.name, w), x, y + label - 5 * ratio);
    if (!scale || n.state !== 0) continue;
    const i = step(scale, n), isDark = matchMedia('(prefers-color-scheme: dark)').matches;
    context.font = `600 ${14 * ratio}px ${font}`;
    context.textAlign = 'center';
    context.fillStyle = css((isDark ? i >= 3 : i < 3) ? 'on-light' : 'on-dark');
    context.fillText(values[view.color](n), x + w / 2, y + label + (h - label) / 2 + 5 * ratio, w - 4);
  }
  context.globalAlpha = 1;
}

// shorten cuts the middle out of a text that is wider than a number of pixels: similar names differ at their ends.
function shorten(context, text, width) {
  let short = text;
  for (let size = Math.min(text.length, 64) - 1; size >= 6 && context.measureText(short).width > width; size--) {
    short = `${text.slice(0, Math.ceil(size / 2))}…${text.slice(-Math.floor(size / 2))}`;
  }
  return short;
}

// nodeAt returns the node under the pointer.
function nodeAt(event) {
  if (!at) return null;
  const {ratio, gap, w, h, perRow} = at;
  const x = event.offsetX * ratio - gap, y = event.offsetY * ratio + $('field').scrollTop * ratio - gap;
  const column = Math.floor(x / (w + gap)), row = Math.floor(y / (h + gap));
  if (column < 0 || column >= perRow || row < 0 || x % (w + gap) > w || y % (h + gap) > h) return null;
  return model.shown[row * perRow + column] ?? null;
}

function showTip(event) {
  const n = nodeAt(event), tip = $('tip');
  tip.hidden = !n;
  if (!n) return;
  const lines = n.state !== 0 ? [states[n.state]] : [
    `${count(n.cpus, 'CPU')}: ${[3, 2, 1, 0].map(use => `${n.counts[use]} ${uses[use]}`).join(', ')}`, scales.free.text(n),
    `${cpus(n.sensitive)} CPUs of sensitive containers, ${scales.shared.text(n)}`, scales.age.text(n)];
  if (model.throttled) lines.push(scales.throttled.text(n));
  tip.replaceChildren(el('b', {}, name(n.name)), ...lines.map(line => el('div', {}, line)));
  const box = tip.getBoundingClientRect(), below = event.clientY + 18;
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${below + box.height > innerHeight ? event.clientY - box.height - 10 : below}px`;
}

const nodeLink = text => el('a', {href: address({node: text, pod: ''})}, name(text));
let tablePage = 0;
function drawTable() {
  if (drawTable.isDrawn && $('table').contains(document.activeElement)) return; // a change must not take the focus from a link
  drawTable.isDrawn = true;
  const by = use => n => n.state === 0 ? number(n.counts[use]) : '-';
  const columns = [
    {title: 'Node', cell: n => nodeLink(n.name)}, {title: 'CPUs', cell: n => n.state === 0 ? number(n.cpus) : '-', isNumber: true},
    ...[3, 2, 1, 0].map(use => ({title: uses[use][0].toUpperCase() + uses[use].slice(1), cell: by(use), isNumber: true})),
    {title: 'Free whole CPUs', cell: n => n.state === 0 ? number(n.free) : '-', isNumber: true},
    {title: 'Shared time', cell: n => n.state === 0 ? percent(scales.shared.value(n)) : '-', isNumber: true},
    ...(model.throttled ? [{title: 'Throttled', cell: n => model.throttled.has(n.name) ? percent(model.throttled.get(n.name)) : '-', isNumber: true}] : []),
    {title: 'Last report', cell: n => n.reported ? `${ageText(n)} ago` : '-', isNumber: true}, {title: 'State', cell: n => states[n.state] || 'ready'}];
  $('table').replaceChildren(pagedTable('Nodes', columns, model.shown.filter(matches), tablePage, page => { tablePage = page; }));
}

let searchTimer = 0, searchNumber = 0;
function search() {
  clearTimeout(searchTimer);
  const text = view.q.trim(), own = ++searchNumber;
  model.matches = null;
  $('found').hidden = true;
  update();
  if (text.length < 2) return;
  searchTimer = setTimeout(async () => {
    const answer = await json(`api/pods?q=${encodeURIComponent(text)}`).catch(error => ({error: error.message, pods: [], nodes: [], total: 0}));
    if (own === searchNumber) showFound(answer);
  }, 300);
}

function showFound(answer) {
  model.matches = new Set(answer.nodes);
  const more = answer.total > answer.pods.length ? `, the first ${answer.pods.length}` : '', title = p => name(`${p.namespace}/${p.pod}`);
  const link = p => p.node ? [el('a', {href: address({node: p.node, pod: ''})}, title(p)), ' on ', name(p.node)]
    : [el('a', {href: address({pod: `${p.namespace}/${p.pod}`, node: ''})}, title(p)), ' waits'];
  $('found').replaceChildren(
    answer.error ? el('p', {className: 'error'}, `Pods cannot be searched: ${answer.error}`) : el('p', {className: 'muted'}, `${count(answer.total, 'pod')} found${more}`),
    el('ul', {}, ...answer.pods.map(p => el('li', {}, ...link(p)))));
  $('found').hidden = false;
  update();
}

let opened = 0; // number of the detail that was opened last: a late answer of another one is dropped
// open shows a detail under a title, when its answer has come.
async function open(title, path, show) {
  const own = ++opened, heading = el('h2', {tabIndex: -1}, name(title)), body = el('div', {}, el('p', {className: 'muted'}, 'Loading'));
  $('detail').replaceChildren(el('div', {className: 'title'}, el('a', {href: address({node: '', pod: ''})}, 'All nodes'), heading), body);
  heading.focus();
  await fillIn(own, body, path, show);
}
async function fillIn(own, body, path, show) {
  const parts = await json(path).then(show).catch(error => [el('p', {className: 'error'}, error.message)]);
  if (own === opened) body.replaceChildren(...parts);
}

const nodePath = () => `api/node?name=${encodeURIComponent(view.node)}`;
const podPath = () => `api/pod?namespace=${encodeURIComponent(view.pod.split('/')[0])}&name=${encodeURIComponent(view.pod.split('/')[1] ?? '')}`;

// refreshNode reads an open node again after a change, at most once in a second.
function refreshNode() {
  refreshNode.timer ??= setTimeout(() => {
    refreshNode.timer = null;
    if (view.node) fillIn(opened, $('detail').lastElementChild, nodePath(), showNode);
  }, 1000);
}

function showNode(answer) {
  if (answer.problem) return [el('p', {className: 'error'}, name(answer.problem))];
  const columns = [
    {title: 'Namespace', cell: c => name(c.namespace ?? '-')}, {title: 'Pod', cell: c => name(c.pod ?? '-')}, {title: 'Container', cell: c => name(c.container)},
    {title: 'Class', cell: c => c.class}, {title: 'Limit', cell: c => c.limit, isNumber: true}, {title: 'Sees', cell: c => c.sees, isNumber: true}, {title: 'CPUs', cell: c => c.cpus}];
  return [drawing(answer.svg, answer.style), ...list('Notes', answer.notes), el('h3', {}, count(answer.containers.length, 'container')), pagedTable('Containers', columns, answer.containers)];
}

// drawing returns the picture of a node. Its style sheet must not apply to the page, and the policy would refuse it as an element.
function drawing(text, style) {
  const svg = new DOMParser().parseFromString(text, 'image/svg+xml').documentElement, sheet = new CSSStyleSheet();
  const box = el('div', {className: 'drawing'}), shadow = box.attachShadow({mode: 'open'});
  sheet.replaceSync(style);
  shadow.adoptedStyleSheets = [sheet];
  shadow.append(document.importNode(svg, true));
  return box;
}

function showPod(answer) {
  if (answer.node) return [el('p', {}, 'The pod is on node ', nodeLink(answer.node), '.')];
  const nodes = answer.nodes.sort((a, b) => (a.place || Infinity) - (b.place || Infinity) || byName(a.node, b.node)); // no place: does not fit
  const given = n => n.reason || (n.containers ?? []).map(c => `${c.name}: ${c.class === 'flexible' ? 'shared ' : 'CPUs '}${c.cpus}`).join('; ') || 'no Candor on the node: what the kubelet gives';
  const columns = [{title: 'Node', cell: n => name(n.node)}, {title: 'Place', cell: n => String(n.place ?? '-'), isNumber: true}, {title: 'CPUs, or the reason against the node', cell: n => name(given(n))}];
  return [
    el('p', {}, answer.refusal ? name(`The pod waits: ${answer.refusal}`) : answer.nodes.length > 0 ? 'The pod waits, and fits on a node by this dry run.' : 'No dry run.'),
    ...(answer.message ? [el('p', {className: 'muted'}, name(`Message of ${answer.scheduler}: ${answer.message}`))] : []),
    ...list('Notes', answer.notes), ...list('Not evaluated here, and can change the result', answer.notLookedAt), pagedTable('Nodes for the pod', columns, nodes)];
}

// address returns the URL of a view that differs from the current view.
function address(change) {
  const next = {...view, ...change}, parameters = new URLSearchParams();
  for (const key of Object.keys(defaults)) if (next[key] !== defaults[key]) parameters.set(key, next[key]);
  return `#${parameters}`;
}

// route shows the view of the URL. Unknown values are replaced by the defaults.
function route() {
  const before = {...view}, parameters = new URLSearchParams(location.hash.slice(1));
  for (const key of Object.keys(defaults)) view[key] = parameters.get(key) ?? defaults[key];
  if (view.view !== 'table') view.view = 'map';
  if (view.order !== 'value') view.order = 'name';
  if (!Object.hasOwn(scales, view.color)) view.color = 'use';
  for (const key of ['color', 'order', 'q']) if ($(key).value !== view[key]) $(key).value = view[key];
  for (const key of ['map', 'table']) $(`view-${key}`).ariaPressed = String(view.view === key);
  const isDetail = view.node !== '' || view.pod !== '';
  $('all').hidden = isDetail;
  $('detail').hidden = !isDetail;
  $('tip').hidden = true;
  document.title = `${view.node || view.pod || 'CPUs of the nodes'} - Candor`;
  if (view.q !== before.q || route.isFirst) search();
  if (view.color === 'throttled') readThrottling();
  if (isDetail && (view.node !== before.node || view.pod !== before.pod || route.isFirst)) view.node ? open(view.node, nodePath(), showNode) : open(view.pod, podPath(), showPod);
  if (!isDetail && (before.node || before.pod)) $('q').focus({preventScroll: true});
  if (view.view !== before.view || view.q !== before.q) tablePage = 0;
  drawTable.isDrawn = false;
  route.isFirst = false;
  update();
}
route.isFirst = true;
async function readThrottling() {
  await json('api/throttling').then(answer => { model.throttled = new Map(Object.entries(answer.nodes)); update(); }, error => setState(`No throttling: ${error.message}`, true));
  clearTimeout(readThrottling.timer);
  readThrottling.timer = setTimeout(() => { if (view.color === 'throttled') readThrottling(); }, 30000);
}

const go = change => { history.replaceState(null, '', address(change)); route(); };
for (const key of ['color', 'order']) $(key).onchange = () => go({[key]: $(key).value});
for (const key of ['map', 'table']) $(`view-${key}`).onclick = () => go({view: key});
$('q').oninput = () => go({q: $('q').value});
$('canvas').onclick = event => { const n = nodeAt(event); if (n) location.hash = address({node: n.name, pod: ''}); };
$('canvas').onmousemove = showTip;
$('canvas').onmouseleave = () => { $('tip').hidden = true; };
$('field').onscroll = () => { $('tip').hidden = true; update(); };
addEventListener('hashchange', () => location.hash.startsWith('#token=') ? enter() : route());
addEventListener('keydown', event => { if (event.key === 'Escape' && (view.node || view.pod)) location.hash = address({node: '', pod: ''}); });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', update);
new ResizeObserver(update).observe($('field'));
setInterval(update, 60000); // the age of the reports
enter();

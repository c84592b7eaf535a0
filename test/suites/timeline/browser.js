// Opens the pages in Chromium and prints a line of JSON for each law that it has tested.
//
//   NODE_PATH=build/timeline/node_modules node browser.js CHROMIUM PAGES PICTURES
'use strict';
const assert = require('node:assert/strict');
const path = require('node:path');
const { pathToFileURL } = require('node:url');
const { chromium } = require('playwright-core');

const [executablePath, pages, pictures] = process.argv.slice(2);
const laws = {};
const wide = { width: 1280, height: 800 };
const phone = { width: 390, height: 844 };

// opened gives work a page, and complains of what no page may do.
async function opened(browser, name, options, work) {
  const context = await browser.newContext({ viewport: wide, ...options });
  const page = await context.newPage();
  const wrong = [];
  page.on('console', (m) => wrong.push('console: ' + m.text()));
  page.on('pageerror', (e) => wrong.push('error: ' + e.message));
  page.on('dialog', (d) => { wrong.push('dialog: ' + d.message()); d.dismiss(); });
  page.on('request', (r) => { if (!r.url().startsWith('file:') && !r.url().startsWith('data:')) wrong.push('request: ' + r.url()); });
  await page.goto(pathToFileURL(path.join(pages, name + '.html')).href);
  await settled(page);
  try {
    await work(page);
  } finally {
    await context.close();
  }
  assert.deepEqual(wrong, []);
}

// settled waits until what was asked for is drawn.
const settled = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
const picture = (page, name, options) => page.screenshot({ path: path.join(pictures, name + '.png'), ...options });
const range = (page) => page.locator('#range').textContent();
const bar = (page, label) => page.locator(`.item[aria-label^="${label}"]`).first();

async function press(page, ...keys) {
  for (const k of keys) await page.keyboard.press(k);
  await settled(page);
}

// drag selects from one share of the picture's width to another.
async function drag(page, from, to) {
  const b = await page.locator('#stage').boundingBox();
  await page.mouse.move(b.x + b.width * from, b.y + b.height - 30);
  await page.mouse.down();
  await page.mouse.move(b.x + b.width * to, b.y + b.height - 30, { steps: 4 });
  await page.mouse.up();
  await settled(page);
}

// clashes are texts of the picture that overlap each other or leave it.
const clashes = (page) => page.evaluate(() => {
  const svg = document.querySelector('#stage svg'), edge = svg.getBoundingClientRect(), found = [];
  const all = [...svg.querySelectorAll('text')].filter((t) => t.textContent).map((t) => ({ words: t.textContent, r: t.getBoundingClientRect() }));
  all.forEach((a, i) => {
    if (a.r.left < edge.left - 1 || a.r.right > edge.right + 1 || a.r.top < edge.top - 1 || a.r.bottom > edge.bottom + 1) found.push(a.words + ' leaves the picture');
    for (const b of all.slice(i + 1)) {
      if (a.r.left + 1 < b.r.right && b.r.left + 1 < a.r.right && a.r.top + 3 < b.r.bottom && b.r.top + 3 < a.r.bottom) found.push(a.words + ' overlaps ' + b.words);
    }
  });
  return found;
});

laws['everything is drawn, in light and dark, and no text overlaps another'] = async (browser) => {
  for (const name of ['demo', 'everything']) {
    for (const colorScheme of ['light', 'dark']) {
      await opened(browser, name, { colorScheme }, async (page) => {
        await picture(page, `${name}-${colorScheme}`, { fullPage: true });
        assert.deepEqual(await clashes(page), []);
        const lanes = name === 'demo' ? 6 : 7, items = name === 'demo' ? 9 : 21;
        assert.equal(await page.locator('.item').count(), items);
        assert.ok(await page.locator('#stage text').count() > lanes);
      });
    }
  }
};

laws['hovering shows the holder, the zone, the token, the cause and both times'] = (browser) => opened(browser, 'demo', {}, async (page) => {
  await bar(page, 'candidate-zb leads').hover();
  const tip = page.locator('#tip');
  assert.ok(await tip.isVisible());
  const words = await tip.textContent();
  for (const want of ['candidate-zb', 'zb', '305', 'expired', '+24.992 s', '2026-11-23 12:00:24.992 UTC', 'goes on']) assert.ok(words.includes(want), want + ' in ' + words);
  await bar(page, 'Failover to candidate-zb').hover();
  assert.match(await tip.textContent(), /silence15 s.*delay0\.5 ms.*acquire3\.5 ms.*adopt0\.4 ms.*work start0\.6 ms/);
  await picture(page, 'hover');
  await page.mouse.move(5, 5);
  assert.ok(await tip.isHidden());
});

laws['wheel, buttons and a drag zoom; a double click and the button All reset'] = (browser) => opened(browser, 'demo', {}, async (page) => {
  const full = await range(page);
  assert.equal(full, '+0 s to +1 min 12 s (1 min 12 s)');
  const changed = async (what, back) => {
    await settled(page);
    assert.notEqual(await range(page), full, what);
    await back();
    await settled(page);
    assert.equal(await range(page), full, 'reset after ' + what);
  };
  const b = await page.locator('#stage').boundingBox();
  const reset = () => page.mouse.dblclick(b.x + b.width / 2, b.y + b.height - 8);
  await page.mouse.move(b.x + b.width / 2, b.y + 100);
  await page.mouse.wheel(0, -300);
  await page.waitForFunction((was) => document.getElementById('range').textContent !== was, full);
  await changed('wheel', reset);
  await page.locator('#in').click();
  await changed('button', () => page.locator('#reset').click());
  await page.locator('#in').click();
  await changed('button', () => page.locator('#out').click());
  await drag(page, 0.4, 0.6);
  await changed('drag', reset);
});

laws['keys move, zoom and reset, Tab goes from item to item, Enter opens, Escape returns'] = (browser) => opened(browser, 'demo', {}, async (page) => {
  const full = await range(page), focused = () => page.evaluate(() => document.activeElement.dataset.key || document.activeElement.id);
  await page.locator('#stage').focus();
  await press(page, '+');
  const zoomed = await range(page);
  assert.match(zoomed, /\(36 s\)/);
  await press(page, 'ArrowLeft');
  assert.notEqual(await range(page), zoomed);
  await press(page, 'ArrowRight');
  assert.equal(await range(page), zoomed);
  await press(page, '-');
  assert.equal(await range(page), full);
  await press(page, '+', '+', '0');
  assert.equal(await range(page), full);

  await press(page, 'Tab');
  assert.equal(await focused(), 'fault-0');
  await press(page, 'Tab');
  assert.equal(await focused(), 'term-0');
  assert.ok(await page.locator('#tip').isVisible());
  assert.equal(await page.locator('.item[data-key="term-0"] .mark').evaluate((r) => getComputedStyle(r).strokeWidth), '3px', 'the focus is visible');
  await picture(page, 'focus');
  await press(page, '+');
  assert.equal(await focused(), 'term-0', 'the focus survives drawing');
  await press(page, '0', 'Enter');
  assert.ok(await page.locator('#details').isVisible());
  assert.match(await page.locator('#details').textContent(), /token214/);
  await picture(page, 'details');
  await press(page, 'Escape');
  assert.ok(await page.locator('#details').isHidden());
  assert.equal(await focused(), 'term-0', 'the focus comes back');
});

laws['a click opens an item, from where one gets to it and to its row'] = (browser) => opened(browser, 'demo', {}, async (page) => {
  await bar(page, 'Failover to candidate-zb').click();
  await page.locator('#zoom-to').click();
  await settled(page);
  assert.ok(!(await page.locator('#details').isVisible()));
  assert.match(await range(page), /\+6\.986 s to \+27\.993 s/);
  await bar(page, 'Failover to candidate-zb').click();
  await page.locator('#row').click();
  assert.match(page.url(), /#failover-0$/);
  assert.match(await page.locator('tr:target').textContent(), /15005\.0.*15000\.0/);
});

laws['the phases of a failover can be told apart when zoomed in'] = (browser) => opened(browser, 'demo', {}, async (page) => {
  const b = await page.locator('#stage').boundingBox();
  for (let i = 0; i < 19; i++) {
    const start = await bar(page, 'candidate-zb leads').locator('rect').first().boundingBox();
    const was = await range(page);
    await page.mouse.move(start.x, b.y + b.height - 8);
    await page.mouse.wheel(0, -300);
    await page.waitForFunction((before) => document.getElementById('range').textContent !== before, was);
  }
  assert.match(await range(page), /\([\d.]+ ms\)/);
  await picture(page, 'zoomed', { fullPage: true });
  for (const name of ['delay', 'acquire', 'adopt', 'work_start']) {
    const box = await page.locator(`#stage .mark.${name}`).first().boundingBox();
    assert.ok(box && box.width > 3, name);
  }
  assert.deepEqual(await clashes(page), []);
});

laws['no two times on an axis read the same, however far one zooms'] = async (browser) => {
  for (const name of ['demo', 'long']) {
    await opened(browser, name, {}, async (page) => {
      for (let i = 0; i < 32; i++) {
        const labels = await page.locator('#stage text.faint.middle').allTextContents();
        for (const one of [labels.filter((l) => l.startsWith('+')), labels.filter((l) => !l.startsWith('+'))]) {
          assert.ok(one.length > 1 && new Set(one).size === one.length, (await range(page)) + ': ' + one);
        }
        assert.deepEqual(await clashes(page), []);
        await page.locator('#in').click();
        await settled(page);
      }
    });
  }
};

laws['the button changes between light and dark'] = (browser) => opened(browser, 'demo', { colorScheme: 'dark' }, async (page) => {
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await paper();
  await page.locator('#theme').click();
  assert.notEqual(await paper(), dark);
  await page.locator('#theme').click();
  assert.equal(await paper(), dark);
});

laws['on a phone lanes stay legible, and tables scroll within themselves'] = async (browser) => {
  for (const name of ['demo', 'everything', 'evil']) {
    await opened(browser, name, { viewport: phone, hasTouch: true, colorScheme: name === 'everything' ? 'dark' : 'light' }, async (page) => {
      await picture(page, name + '-phone', { fullPage: true });
      assert.deepEqual(await clashes(page), []);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= phone.width, 'the page is wider than the phone');
      assert.ok(await page.locator('.wide').first().evaluate((w) => w.scrollWidth > w.clientWidth), 'the table does not scroll');
      assert.ok(await page.locator('#stage svg').evaluate((s) => s.getBoundingClientRect().width) > 340);
      await bar(page, name === 'evil' ? '</script>' : 'candidate-zc').or(page.locator('.item').first()).first().tap();
      assert.ok(await page.locator('#details').isVisible());
    });
  }
};

laws['names that contain HTML are text'] = (browser) => opened(browser, 'evil', {}, async (page) => {
  assert.equal(await page.locator('img').count(), 0);
  assert.ok((await page.locator('h1').textContent()).startsWith('</script>'));
  assert.deepEqual(await clashes(page), []);
  for (let i = 0; i < await page.locator('.item').count(); i++) await page.locator('.item').nth(i).hover({ force: true, position: { x: 1, y: 1 } });
  await picture(page, 'evil');
});

laws['an empty history is a page that says so'] = (browser) => opened(browser, 'empty', {}, async (page) => {
  assert.match(await page.locator('main').textContent(), /Nothing was recorded/);
  await picture(page, 'empty');
});

laws['of 10,000 terms only those are drawn that are in view'] = async (browser) => {
  for (const name of ['many', 'long']) {
    await opened(browser, name, {}, async (page) => {
      await picture(page, name);
      const drawn = await page.locator('.item').count();
      assert.ok(drawn > 0 && drawn < 8000, drawn + ' items are drawn');
      assert.equal(await page.locator('tbody').first().locator('tr').count(), 10000);
      for (let i = 0; i < 12; i++) await page.locator('#in').click();
      await settled(page);
      assert.ok(await page.locator('.item').count() < 200);
      assert.ok(await page.locator('.item[data-key^="term-"]').count() > 0);
      await picture(page, name + '-zoomed');
    });
  }
};

laws['it prints in light, without buttons, with whole tables'] = (browser) => opened(browser, 'everything', { colorScheme: 'dark' }, async (page) => {
  await page.locator('#theme').click();
  await page.locator('#theme').click();
  await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
  await picture(page, 'print', { fullPage: true });
  assert.ok(await page.locator('#in').isHidden());
  assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), 'rgb(255, 255, 255)');
  assert.ok(await page.locator('.wide').first().evaluate((w) => w.scrollHeight <= w.clientHeight));
});

(async () => {
  const browser = await chromium.launch({ executablePath, args: process.getuid?.() === 0 ? ['--no-sandbox'] : [] });
  try {
    for (const [law, test] of Object.entries(laws)) {
      let error = '';
      try {
        await test(browser);
      } catch (e) {
        error = String(e.stack || e);
      }
      console.log(JSON.stringify({ Law: law, Error: error }));
    }
  } finally {
    await browser.close();
  }
})();

import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { parseArgs } from 'node:util'
import { chromium, type Page } from 'playwright-core'
import { WebSocketServer, type WebSocket } from 'ws'
import { readPage } from '../cli/page.ts'
import { serveUi } from '../cli/ui-server.ts'

/**
 * The list of the page of `kubectl vm ui` in Chromium, with 100 and with 10,000 VMs of a fake API server that sends
 * pages of 1,000: the time until the first row and until all, how many rows are elements, and how long the page is busy
 * with a filter, a jump to the end, and 1,000 changes at once: the longest task, where the browser reports those over
 * 50 ms. Chromium is Debian's package.
 *
 *     npm run -s bench:page [-- --rows 10000] [--json]
 */
const { values } = parseArgs({
  options: { rows: { type: 'string', default: '10000' }, json: { type: 'boolean' } },
})
const pageSize = 1000
const changes = 1000
const rounds = 5

const columns = ['Name', 'Phase', 'Ready', 'Node', 'CPUs', 'Memory', 'Age']

const tableOf = (indexes: readonly number[], version: number, phase = 'Running') => ({
  kind: 'Table',
  apiVersion: 'meta.k8s.io/v1',
  columnDefinitions: columns.map((name) => ({ name, type: 'string', priority: 0 })),
  rows: indexes.map((index) => ({
    cells: [`vm-${index}`, phase, 'True', `node-${index % 50}`, 2, '4Gi', '1d'],
    object: {
      metadata: {
        name: `vm-${index}`,
        namespace: `team-${index % 20}`,
        uid: `u${index}`,
        resourceVersion: String(version),
        creationTimestamp: '2026-01-01T00:00:00Z',
        labels: { app: `app-${index % 100}`, 'app.kubernetes.io/part-of': 'bench' },
      },
    },
  })),
})

/** How many VMs the API server has. */
let count = 0
const api = createServer((request, response) => {
  const { searchParams } = new URL(request.url ?? '', 'http://api')
  const from = Number(searchParams.get('continue') ?? 0)
  const until = Math.min(from + pageSize, count)
  const indexes = Array.from({ length: until - from }, (_, index) => from + index)
  const metadata = { resourceVersion: '1', ...(until < count ? { continue: String(until) } : {}) }
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ ...tableOf(indexes, 1), metadata }))
})
const watches = new WebSocketServer({ noServer: true })
const opened = new Set<WebSocket>()
api.on('upgrade', (request, socket, head) => {
  watches.handleUpgrade(request, socket, head, (watch) => opened.add(watch))
})
await once(api.listen(0, '127.0.0.1'), 'listening')
const server = `http://127.0.0.1:${(api.address() as AddressInfo).port}`
const ui = await serveUi({
  access: { server, prove: async () => ({ headers: {}, tls: {} }) },
  page: await readPage(),
  port: 0,
  secret: 'secret',
  link: 'once',
  root: 'page',
  answers: { '/cluster': async () => ({ server, namespace: 'default', isNamespaceChosen: false }) },
  readers: {},
})
const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu'],
})

/** Milliseconds until the page has drawn the result of some code. @param code that runs in the page */
const drawnMs = (page: Page, code: string): Promise<number> =>
  page.evaluate(`new Promise((resolve) => {
    const startedMs = performance.now()
    ${code}
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - startedMs)))
  })`)

const type = (text: string) => `
    const filter = document.getElementById('filter')
    filter.value = ${JSON.stringify(text)}
    filter.dispatchEvent(new InputEvent('input', { bubbles: true }))`
const toTop = "document.querySelector('.scroller').scrollTop = 0"
const jump = `
    const scroller = document.querySelector('.scroller')
    scroller.scrollTop = scroller.scrollTop === 0 ? scroller.scrollHeight : 0`

const median = (numbers: readonly number[]) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0

async function repeated(run: (round: number) => Promise<number>): Promise<number> {
  const all: number[] = []
  for (let round = 0; round < rounds; round++) all.push(await run(round))
  return median(all)
}

async function measure(rows: number, isFirst: boolean) {
  count = rows
  const page = await context.newPage()
  const startedMs = performance.now()
  // The link can be used once; then the browser has the cookie.
  await page.goto(isFirst ? ui.link : ui.link.replace(/login.*/, ''))
  await page.locator('tbody th').first().waitFor()
  const firstRowMs = performance.now() - startedMs
  await page.getByText(`${rows} of ${rows}`).waitFor()
  const allRowsMs = performance.now() - startedMs
  const elements = await page.locator('tbody tr').count()
  const filterMs = await repeated((round) => drawnMs(page, type(round % 2 === 0 ? 'app=app-7 node-7' : '')))
  await drawnMs(page, type(''))
  const jumpMs = await repeated(() => drawnMs(page, jump))
  await drawnMs(page, toTop)
  await page.evaluate(`globalThis.durations = [0]
  globalThis.note = (entries) => durations.push(...entries.map(({ duration }) => duration))
  globalThis.observer = new PerformanceObserver((list) => note(list.getEntries()))
  observer.observe({ type: 'longtask' })`)
  await until(() => opened.size > 0)
  for (const watch of opened) {
    // Down to the first row, which is visible: then all are applied.
    for (let change = changes - 1; change >= 0; change--) {
      const object = tableOf([change % rows], 2 + changes - change, 'Stopping')
      watch.send(JSON.stringify({ type: 'MODIFIED', object }))
    }
  }
  await page
    .locator('tbody tr', { has: page.getByRole('link', { name: 'vm-0', exact: true }) })
    .locator('.badge.stopping')
    .waitFor()
  await drawnMs(page, '')
  const longestMs = Number(await page.evaluate('note(observer.takeRecords()), Math.max(...durations)'))
  await page.close()
  opened.clear()
  return { rows, elements, firstRowMs, allRowsMs, filterMs, jumpMs, longestMs }
}

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await new Promise((resolve) => setTimeout(resolve, 10))
}

const context = await browser.newContext({ viewport: { width: 1280, height: 900 } })
// The first page fills the caches of the browser.
await measure(100, true)
const found = [await measure(100, false), await measure(Number(values.rows), false)]
if (values.json === true) {
  process.stdout.write(`${JSON.stringify(found)}\n`)
} else {
  console.table(found.map((one) => Object.fromEntries(Object.entries(one).map(([key, ms]) => [key, Math.round(ms)]))))
}
await browser.close()
ui.close()
api.close()
api.closeAllConnections()
process.exit(0)

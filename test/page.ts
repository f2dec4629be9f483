import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { chromium, type Page } from 'playwright-core'

const main = resolve(import.meta.dirname, '../cli/main.ts')

/** The page of `kubectl vm ui` in a browser. */
export interface OpenPage {
  readonly page: Page
  /** Errors of the page: in its code, and what its security policy refused. */
  readonly errors: readonly string[]
  /** Paths and queries. */
  readonly requests: readonly string[]
  /** Addresses of other servers that it asked for. */
  readonly foreign: readonly string[]
  readonly close: () => Promise<void>
}

/** Debian's package `chromium`. */
const browserPath = '/usr/bin/chromium'
/** Long, because the hosts of tests are busy. */
const deadlineMs = 120_000

/** Runs `kubectl vm ui` and opens its link. @param flags of the command, such as `--kubeconfig` */
export async function openPage(...flags: string[]): Promise<OpenPage> {
  const server = spawn(process.execPath, [main, 'ui', ...flags], { stdio: ['ignore', 'pipe', 'inherit'] })
  const link = await Promise.race([
    once(server.stdout, 'data').then(([chunk]) => String(chunk).trim()),
    once(server, 'exit').then(([code]) => Promise.reject(new Error(`kubectl vm ui ended with ${code}`))),
  ])
  // The sandbox of Chromium refuses root.
  const browser = await chromium.launch({ executablePath: browserPath, args: ['--no-sandbox', '--disable-gpu'] })
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: 'light' })
  const page = await context.newPage()
  page.setDefaultTimeout(deadlineMs)
  const errors: string[] = []
  const requests: string[] = []
  const foreign: string[] = []
  page.on('pageerror', ({ message }) => errors.push(message))
  page.on('console', (message) => {
    // The API server answers the first lists of a new kind with 429, and virtset some requests with 503 while the
    // machine is busy. The page repeats them.
    if (message.type() !== 'error' || /status of (429|503)/.test(message.text())) return
    errors.push(`${message.text()} ${message.location().url}`)
  })
  page.on('request', (request) => {
    const { origin, protocol, pathname, search } = new URL(request.url())
    requests.push(pathname + search)
    if (origin !== new URL(link).origin && protocol.startsWith('http')) foreign.push(request.url())
  })
  await page.goto(link)
  return {
    page,
    errors,
    requests,
    foreign,
    async close() {
      await browser.close()
      server.kill()
      if (server.exitCode === null && server.signalCode === null) await once(server, 'exit')
    },
  }
}

/** Takes a picture for the documentation, if PICTURES is set. @param name of the file in docs/images */
export async function takePicture(page: Page, name: string): Promise<void> {
  if (process.env['PICTURES'] === undefined) return
  await page.setViewportSize({ width: 1100, height: 540 })
  await page.evaluate("document.querySelector('.cm-scroller')?.scrollTo(0, 0)")
  // Playwright itself writes only PNG, which is twice as large.
  const browser = await page.context().newCDPSession(page)
  const { data } = await browser.send('Page.captureScreenshot', { format: 'webp', quality: 85 })
  await writeFile(join(import.meta.dirname, '../docs/images', `${name}.webp`), data, 'base64')
}

/** A violation that axe-core has found. */
interface Violation {
  readonly id: string
  readonly nodes: readonly { readonly target: readonly string[]; readonly failureSummary?: string }[]
}

/**
 * What hinders keyboards and screen readers, or has less contrast than 4.5:1, in light and in dark: by axe-core's rules
 * for WCAG 2.2, AA.
 */
export async function barriersOf(page: Page): Promise<string[]> {
  await page.evaluate(await readFile(new URL(import.meta.resolve('axe-core/axe.min.js')), 'utf8'))
  const found: string[] = []
  for (const colorScheme of ['dark', 'light'] as const) {
    await page.emulateMedia({ colorScheme })
    const { violations } = await page.evaluate<{ readonly violations: readonly Violation[] }>(
      "axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa', 'best-practice'] })",
    )
    for (const { id, nodes } of violations) {
      for (const { target, failureSummary } of nodes)
        found.push(`${colorScheme} ${id} ${target.join(' ')}: ${failureSummary}`)
    }
  }
  return found
}

import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { observeController } from '../../controller/metrics.ts'
import { countEvents, createMetrics, observeReflectors } from '../../runtime/metrics.ts'
import { createCompletionMetrics, createAdmissionMetrics, observeCertificate } from '../../webhooks/metrics.ts'

const folder = new URL('../../manifests/monitoring/', import.meta.url)
const read = (name: string) => readFileSync(new URL(name, folder), 'utf8')

interface Rules {
  readonly spec: {
    readonly groups: readonly {
      readonly rules: readonly {
        readonly alert: string
        readonly expr: string
        readonly annotations: { readonly runbook: string }
      }[]
    }[]
  }
}
const rules = (): Rules => parse(read('rules.yaml'))
const alerts = () => rules().spec.groups.flatMap((group) => group.rules)

interface Dashboard {
  readonly panels: readonly { readonly title: string; readonly targets: readonly { readonly expr: string }[] }[]
}
const dashboard = (): Dashboard => JSON.parse(read('dashboard.json'))
const expressions = () => [
  ...alerts().map(({ expr }) => expr),
  ...dashboard().panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
]

/** The names of all metrics of the processes. */
async function exportedMetrics(): Promise<Set<string>> {
  const registry = createMetrics()
  createAdmissionMetrics(registry)
  createCompletionMetrics(registry)
  observeCertificate(registry, () => undefined)
  observeReflectors(registry, [])
  countEvents(registry, { record: () => {}, statistics: () => ({ waiting: 0, dropped: 0 }), stop: async () => {} })
  const none = { store: { list: () => [] } }
  const presets = { candidates: { size: () => 0 }, quarantined: { size: 0 } }
  observeController(registry, {
    vms: none,
    configs: none,
    groups: none,
    presets,
    profiles: () => ({ nodes: 0, outliers: [] }),
    queues: {},
    isLeader: () => true,
  })
  const metrics = await registry.getMetricsAsJSON()
  const suffixes: Readonly<Record<string, readonly string[]>> = { histogram: ['_bucket', '_sum', '_count'] }
  return new Set(metrics.flatMap(({ name, type }) => (suffixes[String(type)] ?? ['']).map((end) => name + end)))
}

test('alerts and panels use only metrics that a process has', async () => {
  const known = await exportedMetrics()
  const asked = new Set(expressions().flatMap((expr) => expr.match(/\b(?:virtset|nodejs|process)_[a-z0-9_]+/g) ?? []))
  expect([...asked].filter((name) => !known.has(name))).toEqual([])
  expect(asked.size).toBeGreaterThan(10)
})

test('each alert links to an existing runbook', () => {
  const chapters = readFileSync(new URL('../../docs/operate.md', import.meta.url), 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('#'))
    .map((line) =>
      line
        .replace(/^#+ /, '')
        .toLowerCase()
        .replaceAll(/[^a-z0-9 -]/g, '')
        .replaceAll(' ', '-'),
    )
  const missing = alerts().filter(({ annotations: { runbook } }) => !chapters.includes(runbook.split('#')[1] ?? ''))
  expect(missing.map(({ alert }) => alert)).toEqual([])
})

test('each alert is tested', () => {
  const tested = read('rules.test.yaml')
  expect(alerts().filter(({ alert }) => !tested.includes(alert))).toEqual([])
})

import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'

interface Job {
  readonly permissions?: { readonly [scope: string]: string }
  readonly steps: readonly { readonly uses?: string; readonly run?: string; readonly with?: object }[]
}

interface Workflow {
  readonly permissions: { readonly [scope: string]: string }
  readonly jobs: { readonly [name: string]: Job }
}

const folder = resolve(import.meta.dirname, '../../.github/workflows')
const workflow = (name: string): Workflow => parse(readFileSync(join(folder, name), 'utf8'))

test.each(readdirSync(folder))('%s: code of the checkout has no token', (name) => {
  const steps = Object.values(workflow(name).jobs).flatMap((job) => job.steps)
  const checkouts = steps.filter(({ uses }) => uses?.startsWith('actions/checkout@'))
  expect(checkouts.length).toBeGreaterThan(0)
  for (const step of checkouts) expect(step.with).toMatchObject({ 'persist-credentials': false })
})

test.each(readdirSync(folder))('%s: a job with a checkout can write nothing', (name) => {
  const { permissions, jobs } = workflow(name)
  const building = Object.values(jobs).filter(({ steps }) => steps.some(({ uses }) => uses?.includes('/checkout@')))
  for (const job of building) expect(Object.values(job.permissions ?? permissions)).toEqual(['read'])
})

test('release.yaml: what is published has signed provenance', () => {
  const { publish } = workflow('release.yaml').jobs
  const order = publish?.steps.map(({ uses, run }) => uses ?? run ?? '') ?? []
  const attested = order.findIndex((step) => step.startsWith('actions/attest-build-provenance@'))
  expect(attested).toBeGreaterThan(0)
  expect(order.findIndex((step) => step.includes('gh release create'))).toBeGreaterThan(attested)
})

import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { apiVersion } from '../../api/object.ts'
import { kubeconfigAccess } from '../../runtime/access.ts'
import { createKubeClient, type KubeClient } from '../../runtime/kube.ts'
import { clusterVirtualMachinePresets, virtualMachinePresets, virtualMachines } from '../../runtime/resource.ts'
import { createEngine } from '../../webhooks/admission/engine.ts'
import { samplePairs } from '../cli/pairs.ts'
import { resultOfCluster, resultOfOutput } from '../cli/persisted.ts'
import { noSessions, runVm } from '../cli/world.ts'
import { barriersOf, openPage } from '../page.ts'
import { until } from '../until.ts'
import { startApiServer, type TestApiServer } from './apiserver.ts'
import { startWebhooks, type TestWebhooks } from './webhooks.ts'

const namespace = 'default'
const pairs = 200

let api: TestApiServer
let webhooks: TestWebhooks
let kube: KubeClient
let folder: string
/** The uid of the request that created a VM, by name: identities are derived from it. */
const uids = new Map<string, string>()

beforeAll(async () => {
  api = await startApiServer()
  webhooks = await startWebhooks(api, (caches) => {
    const engine = createEngine(caches, (_, { verb }) => Promise.resolve(verb === 'grant-host'))
    return {
      ...engine,
      complete: (vm, review, permissions) => {
        uids.set(review.name, uids.get(review.name) ?? review.uid)
        return engine.complete(vm, review, permissions)
      },
    }
  })
  kube = createKubeClient({ access: await kubeconfigAccess({ file: api.kubeconfig }), userAgent: 'test' })
  folder = await mkdtemp(join(tmpdir(), 'virtset-cli-'))
})
afterAll(async () => {
  await kube?.close()
  await webhooks?.stop()
  await api?.stop()
  if (folder !== undefined) await rm(folder, { recursive: true })
})

/** `kubectl vm` with the kubeconfig of the test's cluster. */
const online = (...words: string[]) =>
  runVm(words, {
    cluster: async () => {
      const access = await kubeconfigAccess({ file: api.kubeconfig })
      return { ...noSessions, kube: createKubeClient({ access, userAgent: 'kubectl-vm' }), server: access.server }
    },
  })

describe('offline completion equals that of the webhooks', () => {
  const { vms, presets } = samplePairs(namespace, pairs, 40)
  const files = () => ({
    presets: join(folder, 'presets.json'),
    vm: (name: string) => join(folder, `${name}.json`),
  })

  beforeAll(async () => {
    for (const preset of presets) {
      await kube.create(
        preset.kind === 'VirtualMachinePreset' ? virtualMachinePresets : clusterVirtualMachinePresets,
        preset,
      )
    }
    await until(() => webhooks.caches.candidates.size() === presets.length)
    await writeFile(files().presets, JSON.stringify({ kind: 'List', items: presets }))
    for (const vm of vms) {
      await writeFile(files().vm(vm.metadata.name ?? ''), JSON.stringify(vm))
    }
  })

  test(`for ${pairs} VMs with any of ${presets.length} presets, including refusals`, async () => {
    const outcomes = { completed: 0, refused: 0 }
    for (const vm of vms) {
      const name = vm.metadata.name ?? ''
      const online = await resultOfCluster(kube.create(virtualMachines, vm))
      const uid = uids.get(name) ?? ''
      const words = [files().vm(name), '--presets', files().presets, '--uid', uid, '-o', 'json', '-q']
      const offline = resultOfOutput(await runVm(['complete', ...words]))
      expect(offline).toEqual(online)
      if ('refusal' in offline) outcomes.refused++
      else outcomes.completed++
    }
    // Both outcomes must occur.
    expect(outcomes.completed).toBeGreaterThan(pairs / 4)
    expect(outcomes.refused).toBeGreaterThan(pairs / 20)
  })

  test('with the presets of the cluster or of a file', async () => {
    for (const vm of vms.slice(0, 20)) {
      const file = files().vm(vm.metadata.name ?? '')
      const rest = ['-o', 'json', '--uid', 'same']
      const [here, there] = [
        await runVm(['complete', file, '--presets', files().presets, ...rest]),
        await online('complete', file, ...rest),
      ]
      expect(there).toEqual(here)
    }
  })

  test('explains a stored VM by its provenance', async () => {
    const { items } = await kube.list(virtualMachines)
    const name = items.find(({ metadata }) => metadata.labels?.['tier'] !== undefined)?.metadata.name ?? ''
    const offline = JSON.parse(
      (
        await runVm([
          'explain',
          files().vm(name),
          '--presets',
          files().presets,
          '-o',
          'json',
          '--uid',
          uids.get(name) ?? '',
        ])
      ).out,
    )
    const result = await online('explain', name, '-o', 'json')
    const explained = JSON.parse(result.out)
    const withoutValues = (fields: { path: string; overridden?: unknown }[]) =>
      Object.fromEntries(fields.map((field) => [field.path, { ...field, overridden: undefined }]))
    expect(withoutValues(explained.fields)).toEqual(withoutValues(offline.fields))
    const outcomes = (presets: { preset: string; outcome: string }[]) =>
      presets.map(({ preset, outcome }) => [preset, outcome])
    expect(outcomes(explained.presets)).toEqual(outcomes(offline.presets))
  })

  test('impact writes nothing', async () => {
    const before = await kube.list(virtualMachines)
    const file = join(folder, 'reboot.json')
    const preset = {
      apiVersion,
      kind: 'ClusterVirtualMachinePreset',
      metadata: { name: 'crash' },
      spec: { selector: {}, strength: 'Enforce', domain: { onCrash: 'coredump-destroy' } },
    }
    await writeFile(file, JSON.stringify(preset))
    const { code, out } = await online('impact', '--presets', file, '-o', 'json')
    expect([code, JSON.parse(out).total]).toEqual([
      1,
      { vms: before.items.length, different: before.items.length, refused: 0, conflicts: 0, freed: 0 },
    ])
    const after = await kube.list(virtualMachines)
    expect(after.items.map(({ metadata }) => metadata.resourceVersion)).toEqual(
      before.items.map(({ metadata }) => metadata.resourceVersion),
    )
  })

  /** Creates the first VM that the presets do not refuse. */
  async function createOne(labels: Record<string, string>, annotations: Record<string, string>): Promise<void> {
    for (const { metadata, ...vm } of vms) {
      const named = { name: 'from-page', namespace, labels: { ...metadata.labels, ...labels }, annotations }
      const isCreated = await kube.create(virtualMachines, { ...vm, metadata: named }).then(
        () => true,
        () => false,
      )
      if (isCreated) return
    }
    throw new Error('every VM is refused')
  }

  test('the page lists VMs live, shows the origin of each field, and deletes a VM', async () => {
    const before = await kube.list(virtualMachines)
    const { page, errors, requests, foreign, close } = await openPage('--kubeconfig', api.kubeconfig)
    try {
      const count = page.getByRole('status').first()
      await page.getByText(`${before.items.length} of ${before.items.length}`).waitFor()
      // Rows that are not visible have no elements.
      expect(await page.locator('tbody tr').count()).toBeLessThan(60)

      await page.getByLabel('Filter by name').fill('made=for-page')
      await createOne({ made: 'for-page' }, { note: '<b>bold</b>' })
      await page.getByText(`1 of ${before.items.length + 1}`).waitFor()
      expect(await count.textContent()).toContain('1 of')
      expect(await barriersOf(page)).toEqual([])

      await page.getByRole('link', { name: 'from-page' }).click()
      await page.getByLabel('Search fields').fill('annotations.note')
      const leaf = page.locator('.leaf')
      await leaf.first().waitFor()
      expect(await leaf.allTextContents()).toEqual(['note: "<b>bold</b>"user'])
      await page.getByLabel('Origin', { exact: true }).selectOption('default')
      await page.getByLabel('Search fields').fill('default')
      await leaf.first().waitFor()
      expect((await leaf.allTextContents()).every((text) => text.includes('default '))).toBe(true)

      await page.getByRole('button', { name: 'Delete from-page …' }).click()
      await page.locator('dialog').getByRole('button', { name: 'Cancel' }).click()
      expect(await page.locator('dialog').isVisible()).toBe(false)
      expect(await barriersOf(page)).toEqual([])
      // The focus returns to the button that opened the dialog.
      await page.keyboard.press('Enter')
      await page.locator('#delete-now').click()
      // Its finalizer remains, because no controller runs.
      await page.getByText('Terminating').waitFor()
      await page.locator('button[aria-disabled][title="it is being deleted"]').waitFor()
      expect([errors, foreign]).toEqual([[], []])
      // All changes came by the watch.
      expect(requests.filter((path) => path.includes('/virtualmachines?limit='))).toHaveLength(1)

      // Browsers send cookies to every port of a host: the server of another user must not get that of the page.
      const received: (string | undefined)[] = []
      const other = createServer(({ headers }, response) => {
        received.push(headers.cookie)
        response.end()
      })
      await once(other.listen(0, '127.0.0.1'), 'listening')
      await page.goto(`http://127.0.0.1:${(other.address() as AddressInfo).port}/apis/virtset.io`)
      other.close()
      expect(received[0]).toBe(undefined)
    } finally {
      await close()
    }
  })

  test('reports missing VMs and presets', async () => {
    expect(await online('explain', 'missing')).toEqual({
      code: 2,
      out: '',
      err: `error: VM "missing" not found in namespace "default" of ${api.server}\n`,
    })
    const file = join(folder, 'elsewhere.json')
    await writeFile(file, JSON.stringify({ ...vms[0], metadata: { name: 'x', namespace: 'elsewhere' } }))
    expect((await online('complete', file)).err).toBe(
      'error: from server (NotFound): namespaces "elsewhere" not found\n',
    )
  })
})

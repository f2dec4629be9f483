import { Agent, request } from 'undici'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { run } from '../../cluster/command.ts'
import { until } from '../until.ts'
import { accountOf } from '../apiserver/accounts.ts'
import { startApiServer } from '../apiserver/apiserver.ts'
import type { TestApiServer } from '../apiserver/apiserver.ts'
import { installProcesses } from '../apiserver/processes.ts'
import { startMutatingWebhook } from '../apiserver/webhooks.ts'
import type { Processes, Replica } from '../apiserver/processes.ts'
import { writePatch } from '../../webhooks/admission/patch.ts'
import type { AdmissionRequest } from '../../webhooks/admission/request.ts'

/** What one tenant leaves behind does not affect another one, with the real webhooks and controller. */
let api: TestApiServer
let processes: Processes
let webhooks: Replica
let admin: Agent

const apiVersion = 'virtset.io/v1alpha1'
/** Each with an admin of the same name. */
const namespaces = ['alice', 'mallory', 'bob', 'carol', 'dave']
const kubectl = (rest: string[], input?: object) =>
  run(
    [api.kubectl, '--kubeconfig', api.kubeconfig, ...rest],
    input === undefined ? {} : { input: JSON.stringify(input) },
  )

interface Answer {
  readonly code: number
  readonly text: string
}

interface Sent {
  readonly body?: string | object
  /** Absent: a cluster administrator. */
  readonly user?: string
}

const send = async (method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, sent: Sent = {}): Promise<Answer> => {
  const { body, user } = sent
  const answer = await request(api.server + path, {
    method,
    headers: {
      'content-type': method === 'PATCH' ? 'application/merge-patch+json' : 'application/json',
      ...(user === undefined ? {} : { 'impersonate-user': user, 'impersonate-group': 'system:authenticated' }),
    },
    dispatcher: admin,
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  return { code: answer.statusCode, text: await answer.body.text() }
}

const pathOf = (plural: string, namespace: string, name = '') =>
  `/apis/${apiVersion}/${namespace === '' ? '' : `namespaces/${namespace}/`}${plural}${name === '' ? '' : `/${name}`}`
const create = (kind: string, namespace: string, object: object, user?: string) =>
  send('POST', pathOf(`${kind.toLowerCase()}s`, namespace), {
    body: { apiVersion, kind, ...object },
    ...(user === undefined ? {} : { user }),
  })
/** Throws unless the API server has accepted. */
const accepted = async (response: Promise<Answer>): Promise<void> => {
  const { code, text } = await response
  if (code >= 300) throw new Error(text.slice(0, 1000))
}
const created = (...of: Parameters<typeof create>) => accepted(create(...of))

const domain = { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } } }
const vm = (name: string, metadata: object = {}) => ({ metadata: { name, ...metadata }, spec: { domain } })
const finalizers = ['tests.virtset.io/hold']
const selecting = (labels: object) => ({ selector: { matchLabels: labels } })
const nested = (depth: number) => `${'{"deep":'.repeat(depth)}{}${'}'.repeat(depth)}`
/** Nested nearly as deeply as the API server accepts. */
const deepPreset = (name: string) =>
  `{"apiVersion":"${apiVersion}","kind":"VirtualMachinePreset",` +
  `"metadata":{"name":"${name}","finalizers":${JSON.stringify(finalizers)}},` +
  `"spec":{"selector":{},"strength":"Enforce","domain":${nested(9000)}}}`
const vmps = 'virtualmachinepresets'
const cvmps = 'clustervirtualmachinepresets'

beforeAll(async () => {
  api = await startApiServer()
  processes = await installProcesses(api)
  admin = new Agent({
    allowH2: false,
    connect: { ca: api.certificateAuthority, cert: api.clientCertificate, key: api.clientKey },
  })
  for (const name of namespaces) {
    await kubectl(['create', 'namespace', name])
    await kubectl(['create', 'serviceaccount', '-n', name, 'default'])
    await kubectl(['create', 'rolebinding', name, '-n', name, '--clusterrole=virtset-admin', `--user=${name}`])
  }
  // Stored while there are no webhooks, and about to be deleted.
  await accepted(send('POST', pathOf(vmps, 'mallory'), { body: deepPreset('stored'), user: 'mallory' }))
  await accepted(send('DELETE', pathOf(vmps, 'mallory', 'stored'), { user: 'mallory' }))
  webhooks = await processes.startWebhooks('webhooks')
})
afterAll(async () => {
  await admin?.close()
  await processes?.stop()
  await api?.stop()
})

const isAlive = () => {
  expect([webhooks.usage().oomKills, webhooks.child.exitCode, webhooks.child.signalCode]).toEqual([0, null, null])
}

describe('while 64 starts of four namespaces wait', () => {
  const waitingNamespaces = ['mallory', 'bob', 'carol', 'dave']
  const perNamespace = 16
  const config = (name: string) => ({ metadata: { name }, spec: { template: { spec: { domain } } } })
  const start = (user: string, name: string) => {
    const configs = `/apis/subresources.virtset.io/v1alpha1/namespaces/${user}/virtualmachineconfigs`
    return send('POST', `${configs}/${name}/start?wait=true`, { user })
  }
  const names = Array.from({ length: perNamespace + 1 }, (_, index) => `waits-${index}`)
  let starts: Promise<Answer>[] = []

  beforeAll(async () => {
    const items = waitingNamespaces.flatMap((namespace) =>
      names.map((name) => ({
        apiVersion,
        kind: 'VirtualMachineConfig',
        ...config(name),
        metadata: { name, namespace },
      })),
    )
    await kubectl(['create', '-f', '-'], { apiVersion: 'v1', kind: 'List', items })
    // No controller runs that would finish the cancelled restart, for whose end a start waits.
    const status = { restart: { uid: 'gone', requestedAt: '2030-01-01T00:00:00Z', cancelled: true } }
    const patches = items.map(({ metadata: { name, namespace } }) =>
      send('PATCH', `${pathOf('virtualmachineconfigs', namespace, name)}/status`, {
        body: { status },
        user: accountOf('webhooks'),
      }),
    )
    await Promise.all(patches.map(accepted))
    const answers: { [namespace: string]: number[] } = {}
    starts = waitingNamespaces.flatMap((namespace) =>
      names.map((name) =>
        start(namespace, name).then((answer) => {
          answers[namespace] = [...(answers[namespace] ?? []), answer.code]
          return answer
        }),
      ),
    )
    // One of each namespace is refused once the others wait.
    await until(() => Object.keys(answers).length === waitingNamespaces.length)
    const codes = Object.values(answers).flat()
    if (codes.join() !== '429,429,429,429') throw new Error(JSON.stringify(answers))
  }, 180_000)
  afterAll(async () => {
    // A start of a config that is gone does not wait for its deadline.
    const ends = waitingNamespaces.map((namespace) => send('DELETE', pathOf('virtualmachineconfigs', namespace)))
    await Promise.all([...ends.map(accepted), ...starts])
  }, 120_000)

  test('a VM that excludes a preset is answered, for which the user’s access is reviewed', async () => {
    await created('VirtualMachinePreset', 'alice', {
      metadata: { name: 'small' },
      spec: { ...selecting({ size: 'small' }), strength: 'Enforce', domain: { title: 'small' } },
    })
    const metadata = { labels: { size: 'small' }, annotations: { 'virtset.io/exclude-presets': 'small' } }
    await kubectl(['create', 'rolebinding', 'eve', '-n', 'alice', '--clusterrole=virtset-edit', '--user=eve'])
    // The API server knows the role, and the webhooks know the preset, a moment later.
    const answer = await until(async () => {
      const body = { apiVersion, kind: 'VirtualMachine', ...vm('includes', metadata) }
      const { code, text } = await send('POST', `${pathOf('virtualmachines', 'alice')}?dryRun=All`, {
        body,
        user: 'eve',
      })
      return code === 201 && text.includes('"title"') ? text : undefined
    })
    expect(answer).toContain('"title":"small"')
    expect(await create('VirtualMachine', 'alice', vm('excludes', metadata), 'alice')).toMatchObject({
      code: 201,
      text: expect.not.stringContaining('"title"'),
    })
  })

  test('a start in another namespace is answered', async () => {
    await created('VirtualMachineConfig', 'alice', config('web'))
    expect(await start('alice', 'web')).toMatchObject({ code: 201 })
  })
})

describe('a cluster preset that is being deleted', () => {
  const usb = (product: string) => ({
    devices: {
      hostdevs: [{ mode: 'subsystem', type: 'usb', source: { vendor: { id: '0x1050' }, product: { id: product } } }],
    },
  })

  beforeAll(async () => {
    const rules = (name: string, ...verbs: string[]) => [
      'create',
      'clusterrole',
      name,
      '--resource=clustervirtualmachinepresets.virtset.io',
      ...verbs.map((verb) => `--verb=${verb}`),
    ]
    await kubectl(rules('edits-cluster-presets', 'get', 'update', 'patch'))
    await kubectl(rules('grants', 'grant-host'))
    for (const user of ['olga', 'gina']) {
      await kubectl(['create', 'clusterrolebinding', user, '--clusterrole=edits-cluster-presets', `--user=${user}`])
    }
    await kubectl(['create', 'clusterrolebinding', 'gina-grants', '--clusterrole=grants', '--user=gina'])
    await created('ClusterVirtualMachinePreset', '', {
      metadata: { name: 'usb', finalizers },
      spec: { ...selecting({ usb: 'yes' }), domain: usb('0x0407') },
    })
    await accepted(send('DELETE', pathOf(cvmps, '', 'usb')))
  })

  test('grants another device only by a user with the verb grant-host', async () => {
    const change = (user: string) =>
      send('PATCH', pathOf(cvmps, '', 'usb'), { user, body: { spec: { domain: usb('0x0001') } } })
    expect(await change('olga')).toMatchObject({ code: 422, text: expect.stringContaining('grant-host') })
    expect(await change('gina')).toMatchObject({ code: 200, text: expect.stringContaining('0x0001') })
  })

  test('loses its finalizer by any user who may write it', async () => {
    const released = await send('PATCH', pathOf(cvmps, '', 'usb'), {
      user: 'olga',
      body: { metadata: { finalizers: null } },
    })
    expect(released.code).toBe(200)
    expect((await send('GET', pathOf(cvmps, '', 'usb'))).code).toBe(404)
  })
})

describe('a preset that is being deleted, with an object nested thousands of levels deep,', () => {
  beforeAll(async () => {
    await processes.startController('controller')
    await created(
      'VirtualMachinePreset',
      'mallory',
      { metadata: { name: 'patched', finalizers }, spec: { selector: {}, domain: { title: 'a' } } },
      'mallory',
    )
    await accepted(send('DELETE', pathOf(vmps, 'mallory', 'patched'), { user: 'mallory' }))
  })

  test('cannot be made of one that is already stored', async () => {
    const path = pathOf(vmps, 'mallory', 'patched')
    // The API server itself takes long to merge deeper ones, and may give up.
    const { code, text } = await send('PATCH', path, { body: `{"spec":{"domain":${nested(3000)}}}`, user: 'mallory' })
    expect([code, text.slice(0, 1000)]).toEqual([422, expect.stringContaining('must not nest deeper than')])
    isAlive()
  })

  test('stops neither presets nor VMs of another namespace', async () => {
    await created(
      'VirtualMachinePreset',
      'alice',
      { metadata: { name: 'title' }, spec: { ...selecting({ title: 'yes' }), domain: { title: 'by a preset' } } },
      'alice',
    )
    // The webhooks know a new preset a moment later.
    const titled = vm('titled', { labels: { title: 'yes' } })
    const path = `${pathOf('virtualmachines', 'alice')}?dryRun=All`
    const body = { apiVersion, kind: 'VirtualMachine', ...titled }
    const isApplied = async () => (await send('POST', path, { body, user: 'alice' })).text.includes('"by a preset"')
    await until(isApplied)
    const completed = await create('VirtualMachine', 'alice', titled, 'alice')
    expect(completed).toMatchObject({ code: 201, text: expect.stringContaining('"title":"by a preset"') })
    await until(async () => (await send('GET', pathOf(vmps, 'alice', 'title'))).text.includes('"Accepted"'))
    await until(async () => (await kubectl(['get', 'pods', '-n', 'alice', '-o', 'name'])).includes('titled'))
    isAlive()
  })

  test('affects a VM of its own namespace by a warning only', async () => {
    expect((await create('VirtualMachine', 'mallory', vm('own'), 'mallory')).code).toBe(201)
  })

  test('loses its finalizer, and is gone', async () => {
    const body = { metadata: { finalizers: null } }
    const { code, text } = await send('PATCH', pathOf(vmps, 'mallory', 'stored'), { body, user: 'mallory' })
    expect([code, text.slice(0, 1000)]).toEqual([200, expect.any(String)])
    expect((await send('GET', pathOf(vmps, 'mallory', 'stored'))).code).toBe(404)
    isAlive()
  })
})

/** With the controller that was started above. */
describe('three groups whose VMs are slow to admit', () => {
  const groups = ['a', 'b', 'c']
  /** Batches double: what follows these is 32 creations at a time. */
  const fast = 31
  const group = (name: string, replicas: number, labels: object) => ({
    metadata: { name },
    spec: {
      replicas,
      selector: { matchLabels: { group: name } },
      template: { metadata: { labels: { group: name, ...labels } }, spec: { domain } },
    },
  })

  test('leave connections of the controller to a group of another namespace', async () => {
    const gate = Promise.withResolvers<void>()
    const seen: { [group: string]: number } = {}
    let held = 0
    const rule = {
      apiGroups: ['virtset.io'],
      apiVersions: ['*'],
      operations: ['CREATE'],
      resources: ['virtualmachines'],
    }
    const hold = async ({ object }: AdmissionRequest) => {
      const { group = '' } = (object as { metadata: { labels: { group?: string } } }).metadata.labels
      seen[group] = (seen[group] ?? 0) + 1
      if (seen[group] > fast) {
        held++
        await gate.promise
      }
      return { allowed: true as const, patch: writePatch([]) }
    }
    const slow = await startMutatingWebhook(api, hold, { rule, label: 'slow' })
    try {
      for (const name of groups) await created('VirtualMachineGroup', 'mallory', group(name, 63, { slow: 'yes' }))
      await until(() => groups.every((name) => (seen[name] ?? 0) > fast) || held >= 6, undefined, {
        deadlineMs: 120_000,
        describe: () => JSON.stringify(seen),
      })
      await created('VirtualMachineGroup', 'alice', group('web', 3, {}))
      const names = () => kubectl(['get', 'virtualmachines', '-n', 'alice', '-l', 'group=web', '-o', 'name'])
      await until(async () => (await names()).split('\n').filter(Boolean).length === 3, undefined, {
        deadlineMs: 240_000,
        describe: () => `${held} held`,
      })
      // In the order of their arrival, the 96 would be sent first.
      expect(held).toBeLessThan(48)
    } finally {
      gate.resolve()
      await slow.drain(0)
    }
  }, 400_000)
})

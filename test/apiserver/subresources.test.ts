import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Agent, request } from 'undici'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createAuthority, createCertificate } from '../../cluster/certificates.ts'
import type { Pair } from '../../cluster/certificates.ts'
import { run } from '../../cluster/command.ts'
import { barriersOf, openPage, takePicture } from '../page.ts'
import { until } from '../until.ts'
import { accountOf, kubectlAs } from './accounts.ts'
import { startApiServer } from './apiserver.ts'
import type { TestApiServer } from './apiserver.ts'
import { installProcesses } from './processes.ts'
import type { Processes, Replica } from './processes.ts'

/**
 * start, stop and restart through the API server's aggregator, with webhooks and controller in their own processes.
 */
let api: TestApiServer
let processes: Processes

let admin: Agent
let webhooks: Replica
let controller: Replica

beforeAll(async () => {
  api = await startApiServer()
  processes = await installProcesses(api)
  webhooks = await processes.startWebhooks('one')
  controller = await processes.startController('controller')
  admin = new Agent({
    // Two groups are two headers; undici's HTTP/2 would merge them.
    allowH2: false,
    connect: { ca: api.certificateAuthority, cert: api.clientCertificate, key: api.clientKey },
  })
})
afterAll(async () => {
  await admin?.close()
  await processes?.stop()
  await api?.stop()
})

const command = (...rest: string[]) => [api.kubectl, '--kubeconfig', api.kubeconfig, ...rest]
const kubectl = (rest: string[], input?: string) => run(command(...rest), input === undefined ? {} : { input })
const apply = (object: object) => kubectl(['apply', '-f', '-'], JSON.stringify(object))
const field = async (path: string, ...what: string[]) =>
  kubectl(['get', ...what, '--ignore-not-found', '-o', `jsonpath=${path}`])

/** Sees each change at once, with one process. */
const waitFor = (object: string, condition: string) => kubectl(['wait', object, `--for=${condition}`, '--timeout=120s'])
const eventually = (what: string, isTrue: () => Promise<boolean>) =>
  until(isTrue, undefined, { deadlineMs: 120_000, describe: () => what })

const domain = { type: 'qemu', memory: { unit: 'MB', value: 64 }, os: { type: { os: 'hvm' } } }
const config = (name: string, title = 'first') => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachineConfig',
  metadata: { name, namespace: 'default' },
  spec: { template: { metadata: { labels: { app: name } }, spec: { domain: { ...domain, title } } } },
})

interface Answer {
  readonly code: number
  readonly body: { readonly [key: string]: unknown }
}

const subresource = (verb: string, name: string, query = '') =>
  `/apis/subresources.virtset.io/v1alpha1/namespaces/default/virtualmachineconfigs/${name}/${verb}${query}`

const ask = async (
  method: 'GET' | 'POST' | 'PUT' | 'DELETE' | 'PATCH',
  path: string,
  options: { readonly body?: string; readonly user?: string; readonly groups?: string[] } = {},
): Promise<Answer> => {
  const { body, user, groups = [] } = options
  const headers = {
    'content-type': method === 'PATCH' ? 'application/merge-patch+json' : 'application/json',
    ...(user === undefined
      ? {}
      : { 'impersonate-user': user, 'impersonate-group': [...groups, 'system:authenticated'] }),
  }
  const answer = await request(api.server + path, {
    method,
    headers,
    dispatcher: admin,
    ...(body === undefined ? {} : { body }),
  })
  const text = await answer.body.text()
  // The API server itself writes a line of text when the connection to the webhooks is cut.
  return { code: answer.statusCode, body: text.startsWith('{') ? JSON.parse(text) : { text } }
}

/** Acts as scheduler, handler and kubelet. */
const podOf = (name: string) => field('{.items[*].metadata.name}', 'pods', '-l', `virtset.io/vm-name=${name}`)
const reports = (name: string, phase: string) => {
  const patch = [
    'patch',
    'vm',
    name,
    '--subresource=status',
    '--type=merge',
    '-p',
    JSON.stringify({ status: { phase } }),
  ]
  return kubectl([...patch, ...kubectlAs(accountOf('handler'))])
}
const runs = async (name: string) => {
  await eventually(`${name} has a pod`, async () => (await podOf(name)) !== '')
  const pod = await podOf(name)
  const binding = {
    apiVersion: 'v1',
    kind: 'Binding',
    metadata: { name: pod },
    target: { apiVersion: 'v1', kind: 'Node', name: 'n1' },
  }
  await kubectl(
    ['create', '--raw', `/api/v1/namespaces/default/pods/${pod}/binding`, '-f', '-'],
    JSON.stringify(binding),
  )
  await waitFor(`vm/${name}`, 'jsonpath={.status.phase}=Scheduled')
  await reports(name, 'Running')
}
const podEnds = async (name: string) => {
  const selector = `--selector=virtset.io/vm-name=${name}`
  await kubectl(['wait', 'pod', selector, '--for=jsonpath={.metadata.deletionTimestamp}', '--timeout=120s'])
  await kubectl(['delete', 'pod', selector, '--grace-period=0', '--force'])
}
const isGone = (name: string) => waitFor(`vm/${name}`, 'delete')
const hasPhase = (name: string, phase: string) => waitFor(`vmc/${name}`, `jsonpath={.status.phase}=${phase}`)

describe('the flow', () => {
  test('POST c1, start, i1, stop, PATCH, start, i2, stop', async () => {
    await apply(config('c1'))
    await hasPhase('c1', 'Stopped')

    const started = await ask('GET', subresource('start', 'c1'))
    expect(started).toMatchObject({
      code: 201,
      body: {
        kind: 'VirtualMachine',
        metadata: {
          name: 'c1',
          labels: { app: 'c1' },
          ownerReferences: [{ kind: 'VirtualMachineConfig', name: 'c1', controller: true }],
        },
        spec: { domain: { title: 'first', uuid: expect.any(String) } },
      },
    })
    const first = await field('{.metadata.uid}', 'vm', 'c1')
    const uuid = await field('{.spec.domain.uuid}', 'vm', 'c1')
    await hasPhase('c1', 'Starting')
    await runs('c1')
    await hasPhase('c1', 'Running')
    expect(await kubectl(['get', 'vmc', 'c1', '--no-headers'])).toMatch(/^c1 +Running +n1 +false /)

    await kubectl([
      'patch',
      'vmc',
      'c1',
      '--type=merge',
      '-p',
      '{"spec":{"template":{"spec":{"domain":{"title":"second"}}}}}',
    ])
    await waitFor('vmc/c1', 'jsonpath={.status.outdated}=true')
    expect(await field('{.spec.domain.title}', 'vm', 'c1')).toBe('first')
    expect(await ask('POST', subresource('start', 'c1'))).toMatchObject({
      code: 409,
      body: { kind: 'Status', reason: 'Conflict', message: expect.stringContaining('already running') },
    })

    expect(await ask('POST', subresource('stop', 'c1'), { body: '{"gracePeriodSeconds":5}' })).toMatchObject({
      code: 202,
      body: { status: 'Success', details: { uid: first } },
    })
    expect(await field('{.metadata.annotations.virtset\\.io/grace-period-seconds}', 'vm', 'c1')).toBe('5')
    await hasPhase('c1', 'Stopping')
    expect(await ask('PUT', subresource('start', 'c1'))).toMatchObject({
      code: 409,
      body: { message: expect.stringContaining('stopping') },
    })
    await podEnds('c1')
    await isGone('c1')
    await hasPhase('c1', 'Stopped')
    expect((await ask('POST', subresource('stop', 'c1'))).code).toBe(409)

    expect(await ask('PUT', subresource('start', 'c1'))).toMatchObject({
      code: 201,
      body: { spec: { domain: { title: 'second' } } },
    })
    expect(await field('{.metadata.uid}', 'vm', 'c1')).not.toBe(first)
    expect(await field('{.spec.domain.uuid}', 'vm', 'c1')).toBe(uuid)
    expect((await ask('POST', subresource('stop', 'c1'))).code).toBe(202)
    await isGone('c1')
  })

  /** A kubeconfig of a service account that can view everything, and control one config. */
  async function kubeconfigFor(name: string): Promise<string> {
    const subresources = ['start', 'stop', 'restart'].map((verb) => `virtualmachineconfigs/${verb}`)
    const rule = {
      apiGroups: ['subresources.virtset.io'],
      resources: subresources,
      resourceNames: [name],
      verbs: ['update'],
    }
    const rbac = { apiVersion: 'rbac.authorization.k8s.io/v1', metadata: { name, namespace: 'default' } }
    await apply({ ...rbac, kind: 'Role', rules: [rule] })
    await kubectl(['create', 'serviceaccount', name])
    const account = `--serviceaccount=default:${name}`
    await kubectl(['create', 'rolebinding', name, `--role=${name}`, account])
    await kubectl(['create', 'clusterrolebinding', name, '--clusterrole=virtset-view', account])
    const token = (await kubectl(['create', 'token', name])).trim()
    const cluster = {
      server: api.server,
      'certificate-authority-data': Buffer.from(api.certificateAuthority).toString('base64'),
    }
    const file = join(api.directory, `${name}.kubeconfig`)
    const config = {
      clusters: [{ name, cluster }],
      users: [{ name, user: { token } }],
      contexts: [{ name, context: { cluster: name, user: name } }],
      'current-context': name,
    }
    writeFileSync(file, JSON.stringify(config))
    return file
  }

  test('the page starts, restarts and stops a VM, and states why it cannot', async () => {
    const preset = (name: string, title: string, vcpu: number) => ({
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'VirtualMachinePreset',
      metadata: { name, namespace: 'default' },
      spec: {
        selector: { matchLabels: { app: 'paged' } },
        strength: 'Enforce',
        domain: { title, vcpu: { value: vcpu } },
      },
    })
    await apply(config('paged'))
    await apply(config('paged-other'))
    await apply(preset('paged-a', 'a', 1))
    await apply(preset('paged-b', 'b', 2))
    await hasPhase('paged', 'Stopped')
    const { page, errors, close } = await openPage('--kubeconfig', await kubeconfigFor('paged'))
    const button = (name: string) => page.getByRole('button', { name, exact: true })
    const disabled = (name: string, why: string) =>
      page.locator(`button[aria-disabled][aria-label="${name}"][title*="${why}"]`).waitFor()
    try {
      await page.getByRole('link', { name: 'Configs' }).click()
      await disabled('start paged-other', 'you need the permission to update virtualmachineconfigs/start')
      await page.getByRole('link', { name: 'paged', exact: true }).click()
      await disabled('stop paged', 'it is not running')

      await button('start paged').click()
      const alert = page.getByRole('alert')
      await alert.getByText('spec.domain.vcpu').first().waitFor()
      expect(await alert.locator('li code').allTextContents()).toEqual(['spec.domain.title', 'spec.domain.vcpu.value'])
      // Not disabled meanwhile: it keeps the focus.
      expect(await page.evaluate('document.activeElement.ariaLabel')).toBe('start paged')
      await kubectl(['delete', 'vmp', 'paged-b'])
      await eventually('the page starts the VM', async () => {
        const [started] = await Promise.all([page.waitForResponse(/\/start$/), button('start paged').click()])
        return started.ok()
      })
      const first = await field('{.metadata.uid}', 'vm', 'paged')
      await disabled('start paged', 'it is already running')
      expect(await alert.count()).toBe(0)
      await disabled('Delete paged …', 'you need the permission to delete virtualmachines')

      await button('restart paged').click()
      await eventually('another VM runs', async () => {
        const uid = await field('{.metadata.uid}', 'vm', 'paged')
        return uid !== '' && uid !== first
      })
      await button('stop paged').click()
      await page.getByText('the VM does not exist').waitFor()
      await disabled('restart paged', 'it is not running')
      // Chromium reports refused requests: the events, and the starts.
      expect(errors.filter((message) => !/status of 4(03|22)/.test(message))).toEqual([])
    } finally {
      await close()
    }
  })

  const changesOf = ({ name, changes }: { readonly name: string; readonly changes: readonly object[] }) => ({
    name,
    changes,
  })

  /** What `kubectl vm impact` reports: the counts, and the changes of each VM. */
  async function impactOf(preset: object): Promise<[total: object, vms: object[]]> {
    const file = join(api.directory, 'edited.json')
    writeFileSync(file, JSON.stringify(preset))
    const words = ['impact', '--presets', file, '--kubeconfig', api.kubeconfig, '-o', 'json']
    const { stdout, status } = spawnSync(process.execPath, ['cli/main.ts', ...words], { encoding: 'utf8' })
    expect(status).toBe(1)
    const { total, namespaces } = JSON.parse(stdout)
    return [total, namespaces.default.shown.map(changesOf)]
  }

  test('the page shows the VMs of a preset and the impact of its text, then applies it', async () => {
    await apply(config('viewed'))
    const preset = (vcpu: number) => ({
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'VirtualMachinePreset',
      metadata: { name: 'viewed', namespace: 'default' },
      spec: { selector: { matchLabels: { app: 'viewed' } }, domain: { vcpu: { value: vcpu } } },
    })
    await apply(preset(2))
    await eventually('the VM has the preset', async () => {
      await ask('POST', subresource('start', 'viewed'))
      return (await field('{.spec.domain.vcpu.value}', 'vm', 'viewed')) === '2'
    })
    const { page, errors, foreign, close } = await openPage('--kubeconfig', api.kubeconfig)
    const impact = page.locator('#impact-state')
    try {
      await page.getByRole('link', { name: 'Presets', exact: true }).click()
      await page.getByRole('link', { name: 'viewed' }).click()
      await impact.getByText('matches 1 of 1 VM, nothing would differ').waitFor()
      await page.getByText('NoConflicts').waitFor()

      await page.locator('.cm-line', { hasText: 'value: 2' }).click()
      await page.keyboard.press('End')
      await page.keyboard.type('x')
      const problem = page.getByText('spec.domain.vcpu.value', { exact: true })
      await problem.waitFor()
      expect(await page.locator('.problems').textContent()).toContain('line 9')
      await page.locator('button[aria-disabled][aria-label="Apply"][title="correct the text first"]').waitFor()
      await page.keyboard.press('Backspace')
      await page.keyboard.press('Backspace')
      await page.keyboard.type('3')
      await page.getByText('No problems.').waitFor()
      const [answer] = await Promise.all([
        page.waitForResponse(/\/impact$/),
        page.getByRole('button', { name: 'Show impact' }).click(),
      ])
      await impact.getByText('1 would differ').waitFor()
      const { vms, different, refused, freed, shown } = await answer.json()
      const [total, named] = await impactOf(preset(3))
      expect([total, named]).toMatchObject([{ vms, different, refused, freed }, shown.map(changesOf)])
      expect(named).toHaveLength(1)
      expect(await barriersOf(page)).toEqual([])
      await takePicture(page, 'preset-impact')
      expect(await page.locator('.changes').textContent()).toBe('spec.domain.vcpu.value23')
      expect(await field('{.spec.domain.vcpu.value}', 'vmp', 'viewed')).toBe('2')

      await page.getByRole('button', { name: 'Apply', exact: true }).click()
      await waitFor('vmp/viewed', 'jsonpath={.spec.domain.vcpu.value}=3')
      expect(await field('{.metadata.annotations}', 'vmp', 'viewed')).toContain('last-applied-configuration')
      expect([errors, foreign]).toEqual([[], []])
    } finally {
      await close()
    }
  })

  test('the page creates a cluster preset, and does not overwrite what someone else has changed', async () => {
    const { page, errors, foreign, close } = await openPage('--kubeconfig', api.kubeconfig)
    const shown = (line: string) => page.locator('.cm-line', { hasText: line })
    const apply = page.getByRole('button', { name: 'Apply', exact: true })
    const typeValue = async (line: string, value: string) => {
      await shown(line).click()
      await page.keyboard.press('Home')
      await page.keyboard.press('Shift+End')
      await page.keyboard.type(value)
      await page.getByText('No problems.').waitFor()
    }
    try {
      await page.getByRole('link', { name: 'Cluster presets' }).click()
      await page.getByRole('link', { name: 'New preset' }).click()
      await page.getByRole('button', { name: 'Create', exact: true }).click()
      await page.getByRole('heading', { name: 'small', exact: true }).waitFor()
      await page.locator('#impact-state').getByText('matches 0 of').waitFor()
      expect(await field('{.spec.selector.matchLabels.size} {.spec.domain.vcpu.value}', 'cvmp', 'small')).toBe(
        'small 1',
      )

      await shown('value: 1').waitFor()
      await kubectl(['patch', 'cvmp', 'small', '--type=merge', '-p', '{"spec":{"domain":{"vcpu":{"value":2}}}}'])
      await typeValue('value: 1', 'value: 3')
      await apply.click()
      await page.getByRole('alert').getByText('was changed by someone else meanwhile').waitFor()
      expect(await field('{.spec.domain.vcpu.value}', 'cvmp', 'small')).toBe('2')

      await page.reload()
      await shown('value: 2').waitFor()
      await kubectl(['label', 'cvmp', 'small', 'team=other'])
      await typeValue('value: 2', 'value: 3')
      await apply.click()
      await page.getByRole('alert').getByText('was changed by someone else meanwhile').waitFor()

      await page.reload()
      await shown('team: other').waitFor()
      await typeValue('value: 2', 'value: 3')
      await apply.click()
      await waitFor('cvmp/small', 'jsonpath={.spec.domain.vcpu.value}=3')
      expect(await field('{.metadata.labels.team}', 'cvmp', 'small')).toBe('other')
      expect([errors, foreign]).toEqual([[], []])
    } finally {
      await close()
      await kubectl(['delete', 'cvmp', 'small', '--ignore-not-found'])
    }
  })

  test('the page completes a VM as it is written, and creates it', async () => {
    await apply({
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'VirtualMachinePreset',
      metadata: { name: 'titled', namespace: 'default' },
      spec: { selector: { matchLabels: { app: 'written' } }, domain: { title: 'from the preset' } },
    })
    const { page, errors, foreign, close } = await openPage('--kubeconfig', api.kubeconfig)
    const leaf = (path: string) => page.locator(`.leaf[title="${path}"]`)
    const typeAfter = async (line: string, text: string) => {
      await page.locator('.cm-line', { hasText: line }).click()
      await page.keyboard.press('End')
      await page.keyboard.type(text)
    }
    try {
      await page.getByRole('link', { name: 'New VM' }).click()
      await leaf('spec.domain.vcpu.value').getByText('default').waitFor()
      expect(await page.getByText('titled').count()).toBe(1)

      await typeAfter('name: web', '\nlabels: {app: written}')
      await leaf('spec.domain.title').getByText('preset default/titled').waitFor()
      await takePicture(page, 'write-a-vm')
      await typeAfter('type: qemu', '\nvcp')
      await page.getByRole('option', { name: /^vcpu/ }).first().click()
      await page.keyboard.type(' {value: x}')
      const problem = page.locator('.problems li', { hasText: 'spec.domain.vcpu.value' })
      await problem.waitFor()
      expect(await problem.textContent()).toContain('line 10')
      await page.locator('button[aria-disabled][aria-label="Create"][title="correct the text first"]').waitFor()
      expect(await barriersOf(page)).toEqual([])
      expect(await leaf('spec.domain.title').count()).toBe(0)
      await page.keyboard.press('Backspace')
      await page.keyboard.press('Backspace')
      await page.keyboard.type('2}')
      await leaf('spec.domain.vcpu.value').getByText('user').waitFor()

      await page.getByRole('button', { name: 'Create', exact: true }).click()
      await page.getByRole('heading', { name: 'web', exact: true }).waitFor()
      expect(await field('{.spec.domain.vcpu.value} {.spec.domain.title}', 'vm', 'web')).toBe('2 from the preset')
      expect([errors, foreign]).toEqual([[], []])
    } finally {
      await close()
    }
  })

  test('the page edits a config and a group', async () => {
    await apply(config('edited'))
    const { page, errors, foreign, close } = await openPage('--kubeconfig', api.kubeconfig)
    const write = async (line: string, text: string) => {
      await page.locator('.cm-line', { hasText: line }).click()
      await page.keyboard.press('Home')
      await page.keyboard.press('Shift+End')
      await page.keyboard.type(text)
      // Disabled until the text was checked.
      await page.getByRole('button', { name: 'Apply', exact: true }).click()
    }
    try {
      await page.getByRole('link', { name: 'Configs' }).click()
      await page.getByRole('link', { name: 'edited', exact: true }).click()
      await page.getByRole('link', { name: 'Edit config' }).click()
      await write('title: first', 'title: second')
      await waitFor('vmc/edited', 'jsonpath={.spec.template.spec.domain.title}=second')

      await page.getByRole('link', { name: 'Groups' }).click()
      await page.getByText('There are none.').waitFor()
      await page.getByRole('link', { name: 'New group' }).click()
      await page.getByRole('button', { name: 'Create', exact: true }).click()
      await page.getByRole('heading', { name: 'web', exact: true }).waitFor()
      await write('replicas: 2', 'replicas: 1')
      await waitFor('vmg/web', 'jsonpath={.spec.replicas}=1')
      expect([errors, foreign]).toEqual([[], []])
    } finally {
      await close()
      await kubectl(['delete', 'vmg', 'web', '--ignore-not-found'])
    }
  })

  test('a dry run changes nothing', async () => {
    await apply(config('tried'))
    expect((await ask('POST', subresource('start', 'tried', '?dryRun=All'))).code).toBe(201)
    expect(await field('{.metadata.uid}', 'vm', 'tried')).toBe('')
    await ask('POST', subresource('start', 'tried'))
    const isThere = [
      'get',
      'vm,vmc',
      'tried',
      '-o',
      'jsonpath={.items[*].metadata.uid} {.items[*].metadata.deletionTimestamp}',
    ]
    const before = await kubectl(isThere)
    for (const verb of ['stop', 'restart']) {
      expect((await ask('POST', subresource(verb, 'tried', '?dryRun=All&gracePeriodSeconds=3'))).code).toBe(202)
      expect((await ask('POST', subresource(verb, 'tried'), { body: '{"dryRun":["All"]}' })).code).toBe(202)
    }
    expect(await kubectl(isThere)).toBe(before)
    expect(await field('{.status.restart}', 'vmc', 'tried')).toBe('')
    expect(await field('{.metadata.annotations}', 'vm', 'tried')).not.toContain('grace-period')
    await runs('tried')
    await reports('tried', 'Succeeded')
    expect((await ask('POST', subresource('start', 'tried', '?dryRun=All'))).code).toBe(201)
    expect(await kubectl(isThere)).toBe(before)
  })

  test('deleting the VM stops the config; the grace period of the next stop can be in the query', async () => {
    await apply(config('deleted'))
    await ask('POST', subresource('start', 'deleted'))
    await hasPhase('deleted', 'Starting')
    await kubectl(['delete', 'vm', 'deleted', '--timeout=120s'])
    await hasPhase('deleted', 'Stopped')
    expect((await ask('POST', subresource('stop', 'deleted'))).code).toBe(409)

    await ask('POST', subresource('start', 'deleted'))
    await runs('deleted')
    expect((await ask('GET', subresource('stop', 'deleted', '?gracePeriodSeconds=7'))).code).toBe(202)
    expect(await field('{.metadata.annotations.virtset\\.io/grace-period-seconds}', 'vm', 'deleted')).toBe('7')
    // A start that waits creates the VM when the old one is gone.
    const started = ask('POST', subresource('start', 'deleted', '?wait'))
    await podEnds('deleted')
    expect((await started).code).toBe(201)
  })

  test('a stop whose deletion is refused leaves no grace period to a later one', async () => {
    await apply(config('protected'))
    await ask('POST', subresource('start', 'protected'))
    await runs('protected')
    const api = { apiVersion: 'admissionregistration.k8s.io/v1', metadata: { name: 'protected' } }
    const matchConstraints = {
      resourceRules: [
        { apiGroups: ['virtset.io'], apiVersions: ['*'], operations: ['DELETE'], resources: ['virtualmachines'] },
      ],
    }
    const validations = [{ expression: "oldObject.metadata.name != 'protected'", message: 'is protected' }]
    await apply({ ...api, kind: 'ValidatingAdmissionPolicy', spec: { matchConstraints, validations } })
    const binding = { policyName: 'protected', validationActions: ['Deny'] }
    await apply({ ...api, kind: 'ValidatingAdmissionPolicyBinding', spec: binding })
    const tried = () => ask('POST', subresource('stop', 'protected', '?dryRun=All'))
    await eventually('the deletion is refused', async () => (await tried()).code !== 202)

    const annotation = () => field('{.metadata.annotations.virtset\\.io/grace-period-seconds}', 'vm', 'protected')
    expect(await ask('POST', subresource('stop', 'protected', '?gracePeriodSeconds=0'))).toMatchObject({
      code: 422,
      body: { message: expect.stringContaining('is protected') },
    })
    expect(await annotation()).toBe('')

    await kubectl(['delete', 'validatingadmissionpolicybinding,validatingadmissionpolicy', 'protected'])
    await eventually('the deletion is accepted', async () => (await tried()).code === 202)
    // That of a stop that was never answered.
    const left = [
      'annotate',
      'vm',
      'protected',
      'virtset.io/grace-period-seconds=0',
      ...kubectlAs(accountOf('webhooks')),
    ]
    await kubectl(left)
    expect((await ask('POST', subresource('stop', 'protected'))).code).toBe(202)
    expect(await annotation()).toBe('')
    await podEnds('protected')
    await isGone('protected')
  })

  test('a finished VM remains until the next start, which deletes it', async () => {
    await apply(config('finished'))
    const first = await ask('POST', subresource('start', 'finished'))
    await runs('finished')
    await reports('finished', 'Succeeded')
    await hasPhase('finished', 'Stopped')
    expect((await ask('POST', subresource('stop', 'finished'))).code).toBe(409)
    const next = ask('POST', subresource('start', 'finished'))
    await podEnds('finished')
    const second = await next
    expect(second).toMatchObject({ code: 201, body: { metadata: { name: 'finished' } } })
    expect(second.body['metadata']).not.toMatchObject({ uid: (first.body['metadata'] as { uid: string }).uid })
  })

  test('start responds with every cause if admission refuses the VM', async () => {
    await apply(config('late'))
    const preset = (name: string, title: string) => ({
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'VirtualMachinePreset',
      metadata: { name, namespace: 'default' },
      spec: { selector: { matchLabels: { app: 'late' } }, domain: { description: title } },
    })
    await apply(preset('one', 'one'))
    await apply(preset('other', 'other'))
    const refused = async () => (await ask('POST', subresource('start', 'late', '?dryRun=All'))).code === 422
    await eventually('the presets are known', refused)
    const answer = await ask('POST', subresource('start', 'late'))
    expect(answer).toMatchObject({
      code: 422,
      body: { kind: 'Status', reason: 'Invalid', details: { kind: 'VirtualMachine', name: 'late' } },
    })
    const { causes } = answer.body['details'] as { causes: { field: string; message: string }[] }
    expect(causes.map((cause) => cause.field)).toEqual(['spec.domain.description'])
    expect(causes[0]?.message).toMatch(/"default\/one".*"default\/other"|"default\/other".*"default\/one"/)
    expect(await field('{.metadata.uid}', 'vm', 'late')).toBe('')
  })
})

describe('a restart', () => {
  test('replaces the VM with one of the current template, exactly once although the controller is killed', async () => {
    await apply(config('r1'))
    await ask('POST', subresource('start', 'r1'))
    await runs('r1')
    const first = await field('{.metadata.uid}', 'vm', 'r1')
    await kubectl([
      'patch',
      'vmc',
      'r1',
      '--type=merge',
      '-p',
      '{"spec":{"template":{"spec":{"domain":{"title":"second"}}}}}',
    ])

    controller.child.kill('SIGKILL')
    expect((await ask('POST', subresource('restart', 'r1'))).code).toBe(202)
    expect(await field('{.status.restart.uid}', 'vmc', 'r1')).toBe(first)
    expect(await ask('POST', subresource('restart', 'r1'))).toMatchObject({ code: 202 })
    expect(await ask('POST', subresource('start', 'r1'))).toMatchObject({
      code: 409,
      body: { message: expect.stringContaining('restarting') },
    })
    // As the kubelet restarts a container: it has the same name, so it need not wait for its own lease to expire.
    controller = await processes.startController('controller')
    await podEnds('r1')
    await eventually('another instance', async () => !['', first].includes(await field('{.metadata.uid}', 'vm', 'r1')))
    await eventually('the restart is done', async () => (await field('{.status.restart}', 'vmc', 'r1')) === '')
    expect(await field('{.spec.domain.title}', 'vm', 'r1')).toBe('second')
    expect((await ask('POST', subresource('stop', 'r1'))).code).toBe(202)
    await isGone('r1')
    expect((await ask('POST', subresource('restart', 'r1'))).code).toBe(409)
  })
})

describe('permissions', () => {
  const grant = async (role: string, user: string) =>
    kubectl(['create', 'rolebinding', user, '-n', 'default', `--clusterrole=${role}`, `--user=${user}`])
  /** `resource` is RESOURCE.GROUP, or RESOURCE.GROUP/SUBRESOURCE. */
  const may = async (user: string, verb: string, what: string) => {
    const [named = '', subresource = ''] = what.split('/')
    const [resource = '', ...group] = named.split('.')
    const resourceAttributes = { namespace: 'default', verb, group: group.join('.'), resource, subresource }
    const body = {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SelfSubjectAccessReview',
      spec: { resourceAttributes },
    }
    const path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews'
    const answer = await ask('POST', path, { body: JSON.stringify(body), user })
    return answer.body['status']
  }

  beforeAll(async () => {
    await grant('virtset-view', 'vera')
    await grant('virtset-edit', 'ed')
    await grant('virtset-admin', 'ada')
    await apply(config('guarded'))
  })

  test.each([
    ['vera', 'get', 'virtualmachineconfigs.virtset.io', true],
    ['vera', 'watch', 'virtualmachinegroups.virtset.io', true],
    ['vera', 'create', 'virtualmachines.virtset.io', false],
    ['vera', 'get', 'virtualmachineconfigs.subresources.virtset.io/start', false],
    ['vera', 'get', 'virtualmachines.subresources.virtset.io/metrics', true],
    ['vera', 'get', 'virtualmachines.sessions.virtset.io/log', false],
    ['ed', 'delete', 'virtualmachines.virtset.io', true],
    ['ed', 'update', 'virtualmachinegroups.virtset.io/scale', true],
    ['ed', 'update', 'virtualmachineconfigs.subresources.virtset.io/restart', true],
    ['ed', 'get', 'virtualmachines.sessions.virtset.io/attach', true],
    ['ed', 'update', 'virtualmachineconfigs.sessions.virtset.io/vnc', true],
    ['ed', 'get', 'virtualmachines.subresources.virtset.io/attach', false],
    ['ed', 'get', 'virtualmachines.subresources.virtset.io/screenshot', false],
    ['ada', 'get', 'virtualmachines.subresources.virtset.io/screenshot', true],
    ['ada', 'update', 'virtualmachines.sessions.virtset.io/console', true],
    ['ed', 'patch', 'virtualmachines.virtset.io/status', false],
    ['ed', 'create', 'virtualmachinepresets.virtset.io', false],
    ['ada', 'create', 'virtualmachinepresets.virtset.io', true],
    ['ada', 'create', 'clustervirtualmachinepresets.virtset.io', false],
    ['ada', 'grant-host', 'clustervirtualmachinepresets.virtset.io', false],
  ])('%s: %s %s is %s', async (user, verb, resource, expected) => {
    expect(await may(user, verb, resource)).toMatchObject({ allowed: expected })
  })

  test.each(['start', 'stop', 'restart'])(
    '%s requires the permissions of an editor with every method, even GET',
    async (verb) => {
      const path = subresource(verb, 'guarded', '?dryRun=All')
      for (const method of ['GET', 'POST', 'PUT'] as const) {
        const refused = await ask(method, path, { user: 'vera' })
        expect([method, refused.code, refused.body['reason']]).toEqual([method, 403, 'Forbidden'])
        expect([201, 409]).toContain((await ask(method, path, { user: 'ed' })).code)
      }
    },
  )

  test('members of a group have its permissions', async () => {
    await kubectl([
      'create',
      'rolebinding',
      'operators',
      '-n',
      'default',
      '--clusterrole=virtset-edit',
      '--group=operators',
    ])
    const path = subresource('start', 'guarded', '?dryRun=All')
    const asMember = async () => (await ask('POST', path, { user: 'olga', groups: ['operators'] })).code
    await eventually('members may', async () => (await asMember()) === 201)
    expect((await ask('POST', path, { user: 'olga', groups: ['others'] })).code).toBe(403)
  })

  test('a user who can read everything cannot start a VM', async () => {
    await kubectl(['create', 'clusterrole', 'reader', '--verb=get,list,watch', '--resource=*.*'])
    await kubectl(['create', 'clusterrolebinding', 'rita', '--clusterrole=reader', '--user=rita'])
    const rules = [{ apiGroups: ['subresources.virtset.io'], resources: ['*'], verbs: ['get'] }]
    await apply({
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRole',
      metadata: { name: 'readall' },
      rules,
    })
    await kubectl(['create', 'clusterrolebinding', 'rita2', '--clusterrole=readall', '--user=rita'])
    const answer = await ask('GET', subresource('start', 'guarded'), { user: 'rita' })
    expect(answer).toMatchObject({
      code: 403,
      body: { message: expect.stringContaining('User "rita" cannot update resource "virtualmachineconfigs/start"') },
    })
    expect(await field('{.metadata.uid}', 'vm', 'guarded')).toBe('')
  })

  test('users cannot set a config as the owner of a VM', async () => {
    const uid = await field('{.metadata.uid}', 'vmc', 'guarded')
    const owner = {
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'VirtualMachineConfig',
      name: 'guarded',
      uid,
      controller: true,
    }
    const vm = {
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'VirtualMachine',
      metadata: { name: 'mine', ownerReferences: [owner] },
      spec: { domain },
    }
    const answer = await ask('POST', '/apis/virtset.io/v1alpha1/namespaces/default/virtualmachines', {
      body: JSON.stringify(vm),
    })
    expect(answer).toMatchObject({
      code: 422,
      body: { message: expect.stringContaining('metadata.ownerReferences[0]') },
    })
  })
})

describe('only the front proxy is trusted', () => {
  const pair = (name: string): Pair => ({
    certificate: readFileSync(join(api.directory, 'pki', `${name}.crt`), 'utf8'),
    key: readFileSync(join(api.directory, 'pki', `${name}.key`), 'utf8'),
  })
  const dial = async (certificate: Pair | undefined, headers: { readonly [name: string]: string }) => {
    const client = certificate === undefined ? {} : { cert: certificate.certificate, key: certificate.key }
    const agent = new Agent({ connect: { rejectUnauthorized: false, ...client } })
    const answer = await request(
      `https://127.0.0.1:${webhooks.subresourcesPort}${subresource('start', 'guarded', '?dryRun=All')}`,
      { method: 'POST', dispatcher: agent, headers },
    )
    const { code, reason } = JSON.parse(await answer.body.text())
    await agent.close()
    return answer.statusCode === 201 ? 201 : { code, reason }
  }
  /** `cut off` if the TLS handshake fails. */
  const force = (certificate: Pair | undefined) => dial(certificate, forged).catch(() => 'cut off')
  const forged = { 'x-remote-user': 'admin', 'x-remote-group': 'system:masters' }
  const unauthorized = { code: 401, reason: 'Unauthorized' }

  test('the front proxy itself', async () => {
    expect(await dial(pair('front-proxy'), forged)).toBe(201)
    expect(await dial(pair('front-proxy'), { 'x-remote-user': 'nobody' })).toMatchObject({ code: 403 })
    expect(await dial(pair('front-proxy'), {})).toEqual(unauthorized)
  })
  test('not a client without a certificate', async () => {
    expect(await force(undefined)).toBe('cut off')
  })
  test('not an admin of the cluster with a certificate of its clients', async () => {
    expect(await force(pair('admin'))).toBe('cut off')
  })
  test('not the right name from another authority', async () => {
    const other = await createAuthority('virtset-front-proxy', new Date())
    expect(await force(await createCertificate(other, { commonName: 'front-proxy-client' }, new Date()))).toBe(
      'cut off',
    )
  })
  test('neither another name from the right authority nor an expired certificate', async () => {
    const authority = pair('front-proxy-ca')
    expect(await dial(await createCertificate(authority, { commonName: 'other' }, new Date()), forged)).toEqual(
      unauthorized,
    )
    const eleven = new Date(Date.now() - 11 * 365 * 24 * 3600 * 1000)
    expect(await force(await createCertificate(authority, { commonName: 'front-proxy-client' }, eleven))).toBe(
      'cut off',
    )
  })
  test('the API server removes such headers from a user’s request', async () => {
    const answer = await request(api.server + subresource('start', 'guarded', '?dryRun=All'), {
      method: 'POST',
      dispatcher: admin,
      headers: { 'impersonate-user': 'vera', 'x-remote-user': 'admin', 'x-remote-group': 'system:masters' },
    })
    expect(answer.statusCode).toBe(403)
    await answer.body.dump()
  })
})

describe('rejects', () => {
  test.each<[string, 'GET' | 'POST' | 'DELETE' | 'PATCH', string, string | undefined, number, string]>([
    ['a config that is not there', 'POST', subresource('start', 'none'), undefined, 404, 'NotFound'],
    ['an unknown subresource', 'POST', subresource('explode', 'guarded'), undefined, 404, 'NotFound'],
    ['the config itself', 'GET', subresource('start', 'guarded').replace('/start', ''), undefined, 404, 'NotFound'],
    ['a wrong verb', 'DELETE', subresource('start', 'guarded'), undefined, 405, 'MethodNotAllowed'],
    ['another wrong verb', 'PATCH', subresource('stop', 'guarded'), '{}', 405, 'MethodNotAllowed'],
    ['a body that is not JSON', 'POST', subresource('stop', 'guarded'), 'power off', 400, 'BadRequest'],
    ['a body that is not an object', 'POST', subresource('stop', 'guarded'), '[1]', 400, 'BadRequest'],
    [
      'a body of 10 MB',
      'POST',
      subresource('stop', 'guarded'),
      `{"x":"${'x'.repeat(10_000_000)}"}`,
      413,
      'RequestEntityTooLarge',
    ],
    ['a dry run of some', 'POST', subresource('start', 'guarded', '?dryRun=Some'), undefined, 400, 'BadRequest'],
    [
      'a negative grace period',
      'POST',
      subresource('stop', 'guarded', '?gracePeriodSeconds=-1'),
      undefined,
      400,
      'BadRequest',
    ],
  ])('%s', async (_, method, path, body, code, reason) => {
    const answer = await ask(method, path, body === undefined ? {} : { body })
    expect([answer.code, answer.body['kind'], answer.body['reason']]).toEqual([code, 'Status', reason])
  })

  test('200 starts at once create one VM', async () => {
    await apply(config('busy'))
    const answers = await Promise.all(Array.from({ length: 200 }, () => ask('POST', subresource('start', 'busy'))))
    const codes = answers.map(({ code }) => code)
    expect(codes.filter((code) => code === 201).length).toBe(1)
    // 429: beyond the requests that one user can have in progress.
    expect(codes.filter((code) => ![201, 409, 429].includes(code))).toEqual([])
    expect((await kubectl(['get', 'vm', '-o', 'name'])).split('\n').filter((name) => name.endsWith('/busy'))).toEqual([
      'virtualmachine.virtset.io/busy',
    ])
  })

  test('a start in a namespace that is being deleted', async () => {
    await kubectl(['create', 'namespace', 'ending'])
    await apply({ ...config('c1'), metadata: { name: 'c1', namespace: 'ending' } })
    await kubectl(['delete', 'namespace', 'ending', '--wait=false'])
    const answer = await ask('POST', subresource('start', 'c1').replace('/default/', '/ending/'))
    expect(answer).toMatchObject({
      code: 403,
      body: { reason: 'Forbidden', message: expect.stringContaining('being terminated') },
    })
  })

  test('a template with every cause, at its field in the template', async () => {
    const { spec, ...rest } = config('wrong')
    const template = {
      metadata: { labels: { 'virtset.io/x': 'y' } },
      spec: { domain: { ...domain, memery: 1, emulator: 1 } },
    }
    const answer = await ask('POST', '/apis/virtset.io/v1alpha1/namespaces/default/virtualmachineconfigs', {
      body: JSON.stringify({ ...rest, spec: { template } }),
    })
    expect(answer.code).toBe(422)
    const fields = (answer.body['details'] as { causes: { field: string }[] }).causes.map((cause) => cause.field)
    expect(fields).toContain('spec.template.spec.domain.memery')
    expect(fields).toContain('spec.template.metadata.labels[virtset.io/x]')
    expect(spec.template).toBeDefined()
  })
})

describe('the aggregated API', () => {
  test.each([
    ['subresources.virtset.io', ['start', 'stop', 'restart'], ['screenshot', 'metrics']],
    ['sessions.virtset.io', [], ['attach', 'portforward', 'log']],
  ])('of %s works with kubectl api-resources and get --raw', async (group, power, sessions) => {
    expect(await kubectl(['api-resources', `--api-group=${group}`])).not.toContain('rror')
    const list = JSON.parse(await kubectl(['get', '--raw', `/apis/${group}/v1alpha1`]))
    expect(list.resources.map(({ name }: { name: string }) => name)).toEqual([
      ...power.map((name) => `virtualmachineconfigs/${name}`),
      ...sessions.map((name) => `virtualmachines/${name}`),
      ...sessions.map((name) => `virtualmachineconfigs/${name}`),
    ])
    expect(JSON.parse(await kubectl(['get', '--raw', '/openapi/v3'])).paths).toHaveProperty([`apis/${group}/v1alpha1`])
  })

  test('repairs a CA bundle that was overwritten', async () => {
    const bundle = () => field('{.spec.caBundle}', 'apiservice', 'v1alpha1.subresources.virtset.io')
    const before = await bundle()
    const patch = { spec: { caBundle: Buffer.from(api.certificateAuthority).toString('base64') } }
    await kubectl([
      'patch',
      'apiservice',
      'v1alpha1.subresources.virtset.io',
      '--type=merge',
      '-p',
      JSON.stringify(patch),
    ])
    await until(async () => (await bundle()) === before, undefined, { deadlineMs: 120_000 })
    const works = async () => (await ask('POST', subresource('start', 'guarded', '?dryRun=All'))).code === 201
    await until(works, undefined, { deadlineMs: 120_000 })
  })

  test('fails no request while a replica stops', async () => {
    const two = await processes.startWebhooks('two')
    await processes.withdraw(two)
    let isOver = false
    const codes = new Set<number>()
    const load = (async () => {
      while (!isOver) codes.add((await ask('POST', subresource('start', 'guarded', '?dryRun=All'))).code)
    })()
    const three = await processes.startWebhooks('three')
    await processes.withdraw(webhooks)
    const ended = new Promise((resolve) => webhooks.child.once('exit', resolve))
    webhooks.child.kill('SIGTERM')
    await ended
    isOver = true
    await load
    expect([...codes]).toEqual([201])
    expect(three.child.exitCode).toBe(null)
  })
})

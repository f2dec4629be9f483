import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { kubeconfigAccess, podAccess } from './access.ts'

const opened: string[] = []
afterEach(async () => {
  for (const directory of opened.splice(0)) await rm(directory, { recursive: true })
})

async function makeDirectory(files: Record<string, string>): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'access-'))
  opened.push(directory)
  for (const [name, content] of Object.entries(files)) await writeFile(join(directory, name), content)
  return directory
}

describe('a pod', () => {
  const environment = { KUBERNETES_SERVICE_HOST: '10.96.0.1', KUBERNETES_SERVICE_PORT: '443' }

  it('sends the token of its service account, and reads it again each minute', async () => {
    const directory = await makeDirectory({ token: 'one\n', 'ca.crt': 'CA' })
    const clock = fakeClock()
    const access = podAccess(environment, { directory, clock })
    expect(access.server).toBe('https://10.96.0.1:443')
    expect(await access.prove()).toEqual({ headers: { authorization: 'Bearer one' }, tls: { ca: Buffer.from('CA') } })
    await writeFile(join(directory, 'token'), 'two')
    expect((await access.prove()).headers).toEqual({ authorization: 'Bearer one' })
    await clock.advance(60_001)
    expect((await access.prove()).headers).toEqual({ authorization: 'Bearer two' })
  })

  it('reports which directory cannot be read, and retries', async () => {
    const directory = await makeDirectory({})
    const access = podAccess(environment, { directory })
    await expect(access.prove()).rejects.toThrow(`reading the service account in ${directory}`)
    await writeFile(join(directory, 'token'), 'late')
    await writeFile(join(directory, 'ca.crt'), 'CA')
    expect((await access.prove()).headers).toEqual({ authorization: 'Bearer late' })
  })

  it('puts an IPv6 address in brackets, and rejects a missing address', () => {
    expect(podAccess({ ...environment, KUBERNETES_SERVICE_HOST: 'fd00::1' }).server).toBe('https://[fd00::1]:443')
    expect(() => podAccess({})).toThrow('not in a pod')
  })
})

describe('a kubeconfig', () => {
  const base64 = (text: string) => Buffer.from(text).toString('base64')
  const kubeconfig = (user: object, cluster: object = {}) =>
    JSON.stringify({
      clusters: [
        { name: 'c', cluster: { server: 'https://api:6443', 'certificate-authority-data': base64('CA'), ...cluster } },
      ],
      users: [{ name: 'u', user }],
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u', namespace: 'team' } }],
      'current-context': 'x',
    })
  const read = async (user: object, cluster: object = {}) => {
    const directory = await makeDirectory({
      config: kubeconfig(user, cluster),
      token: 'from a file\n',
      empty: '',
      plugin: `#!/bin/sh\necho '{"status": {"token": "from a plugin"}}'\n`,
    })
    await chmod(join(directory, 'plugin'), 0o700)
    return kubeconfigAccess({ file: join(directory, 'config') })
  }
  const ca = Buffer.from('CA')

  it('names server and namespace', async () => {
    const { server, namespace } = await read({ token: 't' })
    expect({ server, namespace }).toEqual({ server: 'https://api:6443', namespace: 'team' })
  })

  it.each([
    ['a token', { token: 't' }, { headers: { authorization: 'Bearer t' }, tls: { ca } }],
    [
      'a client certificate',
      { 'client-certificate-data': base64('CERT'), 'client-key-data': base64('KEY') },
      { headers: {}, tls: { ca, cert: Buffer.from('CERT'), key: Buffer.from('KEY') } },
    ],
    [
      'a password',
      { username: 'me', password: 'x' },
      { headers: { authorization: `Basic ${base64('me:x')}` }, tls: { ca } },
    ],
    [
      'an exec plugin',
      {
        exec: {
          apiVersion: 'client.authentication.k8s.io/v1',
          command: 'echo',
          args: ['{"status": {"token": "from exec"}}'],
        },
      },
      { headers: { authorization: 'Bearer from exec' }, tls: { ca } },
    ],
    [
      'an exec plugin beside it',
      { exec: { apiVersion: 'client.authentication.k8s.io/v1', command: './plugin' } },
      { headers: { authorization: 'Bearer from a plugin' }, tls: { ca } },
    ],
    ['a token file', { tokenFile: 'token' }, { headers: { authorization: 'Bearer from a file' }, tls: { ca } }],
    [
      'a token file rather than a token',
      { tokenFile: './token', token: 't' },
      { headers: { authorization: 'Bearer from a file' }, tls: { ca } },
    ],
    [
      'a token while the file has none',
      { tokenFile: 'empty', token: 't' },
      { headers: { authorization: 'Bearer t' }, tls: { ca } },
    ],
  ])('proves by %s', async (_name, user, proof) => {
    expect(await (await read(user)).prove()).toEqual(proof)
  })

  it('reads a token file again each minute', async () => {
    const directory = await makeDirectory({ config: kubeconfig({ tokenFile: 'token' }), token: 'one' })
    const clock = fakeClock()
    const access = await kubeconfigAccess({ file: join(directory, 'config'), clock })
    const bearer = async () => (await access.prove()).headers['authorization']
    expect(await bearer()).toBe('Bearer one')
    await writeFile(join(directory, 'token'), 'two')
    expect(await bearer()).toBe('Bearer one')
    await clock.advance(60_001)
    expect(await bearer()).toBe('Bearer two')
  })

  it('reports a token file that cannot be read', async () => {
    await expect((await read({ tokenFile: 'none' })).prove()).rejects.toThrow(/^reading the token in .*\/none$/)
    await expect((await read({ tokenFile: 'empty' })).prove()).rejects.toThrow(/^reading the token in .*\/empty$/)
  })

  it('supports insecure-skip-tls-verify and tls-server-name', async () => {
    const access = await read({ token: 't' }, { 'insecure-skip-tls-verify': true, 'tls-server-name': 'kubernetes' })
    expect((await access.prove()).tls).toEqual({ ca, rejectUnauthorized: false, servername: 'kubernetes' })
  })

  it.each([
    ['https://api:6443/', 'https://api:6443'],
    ['https://proxy/k8s/clusters/c-x', 'https://proxy/k8s/clusters/c-x'],
    ['https://proxy/k8s/clusters/c-x//?a=b#c', 'https://proxy/k8s/clusters/c-x'],
  ])('reads the server %s, which can have a path', async (server, expected) => {
    expect((await read({ token: 't' }, { server })).server).toBe(expected)
  })

  it.each(['api:6443', '10.0.0.1'])('rejects the server "%s", which is no URL', async (server) => {
    await expect(read({ token: 't' }, { server })).rejects.toThrow('the server of cluster "c" must be a URL')
  })

  it('rejects what it does not support', async () => {
    await expect(read({ token: 't' }, { server: 'http://localhost:8080' })).rejects.toThrow('set KUBECONFIG')
    await expect(read({ token: 't' }, { 'proxy-url': 'http://proxy' })).rejects.toThrow('proxy-url of cluster "c"')
    const directory = await makeDirectory({ config: kubeconfig({}) })
    await expect(kubeconfigAccess({ file: join(directory, 'config'), context: 'other' })).rejects.toThrow('"other"')
    const none = join(directory, 'none')
    await expect(kubeconfigAccess({ file: none })).rejects.toThrow(`kubeconfig ${none} cannot be read`)
  })
})

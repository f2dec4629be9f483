import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import patches from 'fast-json-patch'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createAuthority, issueLeaf } from '../../webhooks/certificates/authority.ts'
import { freePort } from '../apiserver/free-port.ts'

const root = join(import.meta.dirname, '../..')
const run = promisify(execFile)
const folder = mkdtempSync(join(tmpdir(), 'virtset-library-'))
let child: ChildProcess | undefined

/** A fresh folder with the package and its dependencies, as `npm install` would make it, and a certificate. */
beforeAll(async () => {
  const { stdout } = await run(process.execPath, [join(root, 'library/generate-package.ts'), '.'], { cwd: folder })
  const installed = join(folder, 'node_modules/virtset-presets')
  mkdirSync(installed, { recursive: true })
  await run('tar', ['-xzf', stdout.trim(), '-C', installed, '--strip-components=1'])
  const install = (name: string): void => {
    const to = join(folder, 'node_modules', name)
    if (name !== 'virtset-presets') cpSync(join(root, 'node_modules', name), to, { recursive: true })
    const { dependencies = {} } = JSON.parse(readFileSync(join(to, 'package.json'), 'utf8'))
    for (const dependency of Object.keys(dependencies)) install(dependency)
  }
  install('virtset-presets')
  cpSync(join(installed, 'example'), folder, { recursive: true })
  const authority = await createAuthority(Date.now())
  const leaf = await issueLeaf(authority, ['localhost'], Date.now())
  for (const [file, content] of Object.entries({
    'package.json': '{"type": "module"}',
    'ca.crt': authority.pem,
    'tls.crt': leaf.pem,
    'tls.key': leaf.key,
  })) {
    writeFileSync(join(folder, file), content)
  }
}, 900_000)

afterAll(() => {
  child?.kill()
  rmSync(folder, { recursive: true })
})

const gadget = (labels: object, spec: object) => ({
  apiVersion: 'example.com/v1',
  kind: 'Gadget',
  metadata: { name: 'g', namespace: 'team', labels },
  spec,
})

const nodes = [process.execPath, ...(process.env['NODE_22'] === undefined ? [] : [process.env['NODE_22']])]

test.each(nodes)(
  'the example is a webhook that completes objects, on %s',
  async (node) => {
    const port = await freePort()
    child = spawn(node, ['webhook.js', String(port)], { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] })
    const output = child.stdout
    if (output === null) throw new Error('no output')
    expect(await once(createInterface(output), 'line')).toEqual(['ready'])
    const review = async (object: object) => {
      const call = request({ host: 'localhost', port, method: 'POST', ca: readFileSync(join(folder, 'ca.crt')) })
      const body = { uid: 'u', name: 'g', namespace: 'team', operation: 'CREATE', object, options: {} }
      call.end(JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request: body }))
      const [response] = await once(call, 'response')
      return JSON.parse(await text(response)).response
    }
    const small = gadget({ size: 'small' }, { parts: [{ name: 'a' }, { name: 'b', weight: 1 }] })
    const { uid, allowed, patch } = await review(small)
    const operations = JSON.parse(Buffer.from(patch, 'base64').toString())
    expect([uid, allowed, patches.applyPatch(small, operations).newDocument.spec]).toEqual([
      'u',
      true,
      {
        replicas: 1,
        parts: [
          { name: 'a', weight: 5 },
          { name: 'b', weight: 1 },
        ],
      },
    ])
    child.kill()
    await once(child, 'exit')
  },
  300_000,
)

const consumer = `import { createPresets, kindsIn, statusCauses, type Completed } from 'virtset-presets'
const read = kindsIn({})?.get('Gadget of example.com/v1')?.()
if (read !== undefined && 'kind' in read) {
  const completed: Completed = createPresets(read.kind, { restricted: ['spec.host'] }).complete({})
  const [cause] = statusCauses(completed.causes)
  const field: string | undefined = cause?.field
  // @ts-expect-error -- not a member
  completed.objekt
  console.log(field)
}
`

test('the package has types', async () => {
  writeFileSync(join(folder, 'consumer.ts'), consumer)
  const options = [
    '--noEmit',
    '--strict',
    '--module',
    'nodenext',
    '--target',
    'es2023',
    '--typeRoots',
    join(root, 'node_modules/@types'),
  ]
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  const { stdout } = await run(process.execPath, [tsc, ...options, '--types', 'node', 'consumer.ts'], {
    cwd: folder,
  }).catch((error: { stdout: string }) => error)
  expect(stdout).toBe('')
}, 300_000)

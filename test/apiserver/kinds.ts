import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { Agent, request } from 'undici'
import { until } from '../until.ts'
import type { TestApiServer } from './apiserver.ts'

interface Definition {
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] }
}

const folder = 'manifests/crds'
const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'

/** Creates the CRDs of the manifests and waits until they are served. Without kubectl, which takes seconds for them. */
export async function installKinds(api: TestApiServer): Promise<void> {
  const connect = { ca: api.certificateAuthority, cert: api.clientCertificate, key: api.clientKey }
  const dispatcher = new Agent({ connect })
  const { resources }: { resources: string[] } = parse(readFileSync(join(folder, 'kustomization.yaml'), 'utf8'))
  const create = async (file: string, isRepeated = false): Promise<void> => {
    const body = readFileSync(join(folder, file))
    const headers = { 'content-type': 'application/yaml' }
    const response = await request(`${api.server}${path}`, { method: 'POST', headers, body, dispatcher })
    const text = await response.body.text()
    // An API server on a busy host may take longer than it lets a request take.
    if (response.statusCode === 504) return create(file, true)
    if (isRepeated && response.statusCode === 409) return
    if (response.statusCode !== 201) throw new Error(`${file}: ${response.statusCode} ${text.slice(0, 1000)}`)
  }
  await Promise.all(resources.map((file) => create(file)))
  const isEstablished = ({ status }: Definition) =>
    status?.conditions?.some((one) => one.type === 'Established' && one.status === 'True')
  const areServed = async () => {
    const { body } = await request(`${api.server}${path}`, { dispatcher })
    const { items } = (await body.json()) as { readonly items: readonly Definition[] }
    return items.every(isEstablished)
  }
  await until(areServed, undefined, { deadlineMs: 120_000, describe: () => 'the CRDs are served' })
  await dispatcher.close()
}

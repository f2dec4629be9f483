import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { createAuthority, createCertificate, createTokenKeys, type Pair, type Subject } from './certificates.ts'

/** The directory that `ensurePki` wrote; a pair NAME is `NAME.crt` and `NAME.key`. */
export interface Pki {
  readonly directory: string
}

/** The clients in the cluster, by the file names of their certificates. Names and groups are those of Kubernetes. */
const clients: Readonly<Record<string, Subject>> = {
  admin: { commonName: 'admin', organization: 'system:masters' },
  'kubelet-client': { commonName: 'kube-apiserver-kubelet-client', organization: 'system:masters' },
  'controller-manager': { commonName: 'system:kube-controller-manager' },
  scheduler: { commonName: 'system:kube-scheduler' },
  proxy: { commonName: 'system:kube-proxy' },
}

/**
 * Writes the missing certificates of a cluster into a directory: two authorities (clients and servers; front proxy),
 * the API server's, one for each client and each node, and the keys of service account tokens.
 */
export async function ensurePki(
  directory: string,
  apiServerAddresses: readonly string[],
  nodes: readonly { readonly name: string; readonly address: string }[],
  now: Date,
): Promise<Pki> {
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  const authority = await ensurePair(directory, 'ca', () => createAuthority('virtset-cluster', now))
  const frontProxy = await ensurePair(directory, 'front-proxy-ca', () => createAuthority('virtset-front-proxy', now))
  const leaf = (file: string, signer: Pair, subject: Subject) =>
    ensurePair(directory, file, () => createCertificate(signer, subject, now))
  await leaf('apiserver', authority, {
    commonName: 'kube-apiserver',
    dnsNames: ['kubernetes', 'kubernetes.default', 'kubernetes.default.svc', 'localhost'],
    addresses: apiServerAddresses,
  })
  await leaf('front-proxy', frontProxy, { commonName: 'front-proxy-client' })
  for (const [file, subject] of Object.entries(clients)) await leaf(file, authority, subject)
  for (const { name, address } of nodes)
    await leaf(name, authority, {
      commonName: `system:node:${name}`,
      organization: 'system:nodes',
      dnsNames: [name],
      addresses: [address],
    })
  if (!existsSync(join(directory, 'token.pub'))) {
    const keys = createTokenKeys()
    writeFileSync(join(directory, 'token.key'), keys.privateKey, { mode: 0o600 })
    writeFileSync(join(directory, 'token.pub'), keys.publicKey)
  }
  return { directory }
}

/** A kubeconfig with embedded certificates, so that it can be copied. */
export function renderKubeconfig(pki: Pki, server: string, client: string): string {
  const data = (file: string) => readFileSync(join(pki.directory, file)).toString('base64')
  return `apiVersion: v1
kind: Config
clusters:
- name: virtset
  cluster:
    server: ${server}
    certificate-authority-data: ${data('ca.crt')}
users:
- name: ${client}
  user:
    client-certificate-data: ${data(`${client}.crt`)}
    client-key-data: ${data(`${client}.key`)}
contexts:
- name: virtset
  context: {cluster: virtset, user: ${client}}
current-context: virtset
`
}

async function ensurePair(directory: string, name: string, create: () => Promise<Pair>): Promise<Pair> {
  const [certificateFile, keyFile] = [join(directory, `${name}.crt`), join(directory, `${name}.key`)]
  if (existsSync(certificateFile))
    return { certificate: readFileSync(certificateFile, 'utf8'), key: readFileSync(keyFile, 'utf8') }
  const pair = await create()
  writeFileSync(keyFile, pair.key, { mode: 0o600 })
  // The certificate is written last, so that an incomplete pair is created again.
  writeFileSync(certificateFile, pair.certificate)
  return pair
}

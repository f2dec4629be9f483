import { join } from 'node:path'

import type { Pki } from './pki.ts'

/** The addresses of Services: by convention, the first is the API server's and the tenth the DNS server's. */
export const serviceRange = '10.96.0.0/16'
/** A Service has an address from it only if it requests one. */
export const serviceRangeIpv6 = 'fd10:96::/112'
export const apiServerServiceAddress = '10.96.0.1'
export const dnsServiceAddress = '10.96.0.10'

export interface Etcd {
  readonly program: string
  readonly data: string
  readonly clientPort: number
  readonly peerPort: number
  /** Skips fsync, for clusters whose data is not needed after a crash. */
  readonly isVolatile: boolean
}

/** etcd on the loopback device. */
export function etcdCommand(etcd: Etcd): string[] {
  const [client, peer] = [`http://127.0.0.1:${etcd.clientPort}`, `http://127.0.0.1:${etcd.peerPort}`]
  return [
    etcd.program,
    `--data-dir=${etcd.data}`,
    `--listen-client-urls=${client}`,
    `--advertise-client-urls=${client}`,
    `--listen-peer-urls=${peer}`,
    `--initial-advertise-peer-urls=${peer}`,
    `--initial-cluster=default=${peer}`,
    '--log-level=warn',
    ...(etcd.isVolatile ? ['--unsafe-no-fsync'] : []),
  ]
}

export interface ApiServer {
  readonly program: string
  readonly pki: Pki
  readonly etcdPort: number
  readonly address: string
  readonly port: number
  /** The file with the audit policy, and the file for the audit log. */
  readonly audit?: { readonly policy: string; readonly log: string }
}

/**
 * kube-apiserver with everything that webhooks and aggregated APIs need (front proxy, routing to Services' endpoints).
 */
export function apiServerCommand(server: ApiServer): string[] {
  const file = (name: string) => join(server.pki.directory, name)
  return [
    server.program,
    `--etcd-servers=http://127.0.0.1:${server.etcdPort}`,
    `--bind-address=${server.address}`,
    `--advertise-address=${server.address}`,
    `--secure-port=${server.port}`,
    `--service-cluster-ip-range=${serviceRange},${serviceRangeIpv6}`,
    `--client-ca-file=${file('ca.crt')}`,
    `--tls-cert-file=${file('apiserver.crt')}`,
    `--tls-private-key-file=${file('apiserver.key')}`,
    '--service-account-issuer=https://kubernetes.default.svc',
    `--service-account-key-file=${file('token.pub')}`,
    `--service-account-signing-key-file=${file('token.key')}`,
    `--kubelet-certificate-authority=${file('ca.crt')}`,
    `--kubelet-client-certificate=${file('kubelet-client.crt')}`,
    `--kubelet-client-key=${file('kubelet-client.key')}`,
    // The nodes' names are not in any DNS.
    '--kubelet-preferred-address-types=InternalIP',
    `--requestheader-client-ca-file=${file('front-proxy-ca.crt')}`,
    '--requestheader-allowed-names=front-proxy-client',
    '--requestheader-extra-headers-prefix=X-Remote-Extra-',
    '--requestheader-group-headers=X-Remote-Group',
    '--requestheader-username-headers=X-Remote-User',
    `--proxy-client-cert-file=${file('front-proxy.crt')}`,
    `--proxy-client-key-file=${file('front-proxy.key')}`,
    // The API server connects to a Service's endpoints directly: ClusterIPs need not work on its host.
    '--enable-aggregator-routing=true',
    '--authorization-mode=Node,RBAC',
    '--enable-admission-plugins=NodeRestriction',
    '--allow-privileged=true',
    ...(server.audit === undefined
      ? []
      : [
          `--audit-policy-file=${server.audit.policy}`,
          `--audit-log-path=${server.audit.log}`,
          '--audit-log-maxsize=100',
          '--audit-log-maxbackup=1',
        ]),
  ]
}

/** Each node's CNI plugin assigns the addresses of pods, so nodes need no range. */
export function controllerManagerCommand(
  program: string,
  pki: Pki,
  kubeconfig: string,
  volumePlugins: string,
): string[] {
  const file = (name: string) => join(pki.directory, name)
  return [
    program,
    '--bind-address=127.0.0.1',
    ...clientFlags(kubeconfig),
    `--service-account-private-key-file=${file('token.key')}`,
    `--root-ca-file=${file('ca.crt')}`,
    `--cluster-signing-cert-file=${file('ca.crt')}`,
    `--cluster-signing-key-file=${file('ca.key')}`,
    '--use-service-account-credentials=true',
    // It creates this directory even without plugins; by default below /usr.
    `--flex-volume-plugin-dir=${volumePlugins}`,
    '--leader-elect=false',
  ]
}

export function schedulerCommand(program: string, kubeconfig: string): string[] {
  return [program, '--bind-address=127.0.0.1', ...clientFlags(kubeconfig), '--leader-elect=false']
}

function clientFlags(kubeconfig: string): string[] {
  return ['kubeconfig', 'authentication-kubeconfig', 'authorization-kubeconfig'].map(
    (flag) => `--${flag}=${kubeconfig}`,
  )
}

import { spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'

import { serviceRange, serviceRangeIpv6 } from '../../cluster/controlplane.ts'
import { hasIpv6, recordPolicyRules, removePolicyRules } from '../../cluster/network.ts'
import type { TestCluster } from './cluster.ts'

/**
 * Enforces the NetworkPolicies of all pods on one node by kube-router. All nodes share the network of this host, and two
 * engines there would remove each other's rules, so the pods that policies select must be on this node.
 * @returns the function that ends it and removes its rules
 */
export async function enforcePolicies({ state }: TestCluster, node: string): Promise<() => Promise<void>> {
  const [program, kubeconfig] = [process.env['KUBE_ROUTER'], process.env['KUBECONFIG']]
  if (program === undefined || kubeconfig === undefined) throw new Error('KUBE_ROUTER is not set: run `make test`')
  // Those of a test that was killed.
  await removePolicyRules(state)
  recordPolicyRules(state)
  const log = openSync(join(state, 'log/kube-router.log'), 'a')
  const options = [
    '--run-firewall=true',
    '--run-router=false',
    '--run-service-proxy=false',
    `--kubeconfig=${kubeconfig}`,
    `--hostname-override=${node}`,
    `--service-cluster-ip-range=${serviceRange}`,
    ...(hasIpv6() ? ['--enable-ipv6=true', `--service-cluster-ip-range=${serviceRangeIpv6}`] : []),
    '--health-port=0',
    '--metrics-port=0',
  ]
  // It ends with this process, even if that is killed.
  const engine = spawn('setpriv', ['--pdeathsig=TERM', program, ...options], { stdio: ['ignore', log, log] })
  closeSync(log)
  const ended = new Promise<void>((resolve, reject) => {
    engine.once('error', reject)
    engine.once('exit', () => resolve())
  })
  // Awaited at the end.
  ended.catch(() => {})
  return async () => {
    engine.kill()
    await ended
    await removePolicyRules(state)
  }
}

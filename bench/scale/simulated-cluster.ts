import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parse } from 'yaml'
import { run } from '../../cluster/command.ts'
import { controllerManagerCommand } from '../../cluster/controlplane.ts'
import { renderKubeconfig } from '../../cluster/pki.ts'
import { kubernetesAccount } from '../../test/apiserver/accounts.ts'
import type { TestApiServer } from '../../test/apiserver/apiserver.ts'
import { until } from '../../test/until.ts'

/** Scheduler, controller manager and KWOK, which acts as the kubelets of nodes that do not exist. */
export interface SimulatedCluster {
  stop(): Promise<void>
}

interface Options {
  readonly api: TestApiServer
  /** The directory with Kubernetes' programs. */
  readonly binaries: string
  /** The program `kwok`, and the folder of its stages. */
  readonly kwok: string
  readonly stages: string
  readonly nodeNames: readonly string[]
}

/** What the kubelets do, by the files of KWOK's own stages: nodes are ready, and pods run at once. */
const stageFiles = [
  'node/fast/node-initialize.yaml',
  'node/heartbeat-with-lease/node-heartbeat-with-lease.yaml',
  'pod/fast/pod-ready.yaml',
]

const podStage = (name: string, phase: { operator: string; values: readonly string[] }, next: object) => ({
  apiVersion: 'kwok.x-k8s.io/v1alpha1',
  kind: 'Stage',
  metadata: { name },
  spec: {
    resourceRef: { apiGroup: 'v1', kind: 'Pod' },
    selector: {
      matchExpressions: [
        { key: '.metadata.deletionTimestamp', operator: 'Exists' },
        { key: '.status.phase', ...phase },
      ],
    },
    next,
  },
})

const terminated = `
{{ $now := Now }}
phase: Succeeded
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: false
  restartCount: 0
  state:
    terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}
{{ end }}
`

/** Like kubelets, and unlike KWOK's own: a deleted pod is removed after a report that its containers have ended. */
const podEnd = [
  podStage('pod-terminated', { operator: 'In', values: ['Running'] }, { statusTemplate: terminated }),
  podStage('pod-deleted', { operator: 'NotIn', values: ['Running'] }, { delete: true }),
]

const kwokConfiguration = {
  apiVersion: 'config.kwok.x-k8s.io/v1alpha1',
  kind: 'KwokConfiguration',
  options: { podPlayStageParallelism: 16, nodePlayStageParallelism: 16, nodeLeaseParallelism: 8 },
}

/** The defaults of the scheduler limit the whole cluster to 50 pods per second. */
const rates = { qps: 5000, burst: 10_000 }

const capacity = {
  cpu: '1000',
  memory: '4Ti',
  'ephemeral-storage': '100Ti',
  pods: '1000',
  'devices.virtset.io/kvm': '1000',
}

/** Resolves when every node is ready. */
export async function startSimulatedCluster(options: Options): Promise<SimulatedCluster> {
  const { api, binaries, kwok, stages, nodeNames } = options
  const children: ChildProcess[] = []
  const start = (name: string, [program, ...rest]: readonly string[]) => {
    if (program === undefined) throw new Error(`no program for ${name}`)
    const log = openSync(join(api.directory, `${name}.log`), 'a')
    children.push(spawn(program, rest, { stdio: ['ignore', log, log] }))
  }
  const write = (name: string, content: string): string => {
    const file = join(api.directory, name)
    writeFileSync(file, content)
    return file
  }
  const pki = { directory: join(api.directory, 'pki') }
  const kubeconfigOf = (client: string) => write(`${client}.kubeconfig`, renderKubeconfig(pki, api.server, client))

  /** As JSON, which is YAML: an administrator who acts as an account of Kubernetes. */
  const asKubernetes = ({ kubeconfig }: TestApiServer): string => {
    const config = parse(readFileSync(kubeconfig, 'utf8')) as { users: readonly { name: string; user: object }[] }
    const acting = { as: kubernetesAccount, 'as-groups': ['system:masters'] }
    const users = config.users.map(({ name, user }) => ({ name, user: { ...user, ...acting } }))
    return write('kwok.kubeconfig', JSON.stringify({ ...config, users }))
  }

  const manager = controllerManagerCommand(
    join(binaries, 'kube-controller-manager'),
    pki,
    kubeconfigOf('controller-manager'),
    join(api.directory, 'volume-plugins'),
  )
  const limits = [`--kube-api-qps=${rates.qps}`, `--kube-api-burst=${rates.burst}`, '--concurrent-gc-syncs=20']
  start('controller-manager', [...manager, ...limits, '--secure-port=0'])
  const scheduler = {
    apiVersion: 'kubescheduler.config.k8s.io/v1',
    kind: 'KubeSchedulerConfiguration',
    clientConnection: { kubeconfig: kubeconfigOf('scheduler'), ...rates },
    leaderElection: { leaderElect: false },
  }
  const configuration = write('scheduler.json', JSON.stringify(scheduler))
  start('scheduler', [join(binaries, 'kube-scheduler'), `--config=${configuration}`, '--secure-port=0'])
  const documents = [
    ...stageFiles.map((file) => readFileSync(join(stages, file), 'utf8')),
    ...podEnd.map((stage) => JSON.stringify(stage)),
  ]
  start('kwok', [
    kwok,
    `--kubeconfig=${asKubernetes(api)}`,
    `--config=${write('kwok.yaml', JSON.stringify(kwokConfiguration))}`,
    `--config=${write('stages.yaml', documents.join('\n---\n'))}`,
    '--manage-all-nodes',
    '--node-lease-duration-seconds=40',
    '--cidr=10.128.0.0/9',
    '--node-ip=192.0.2.1',
  ])
  const kubectl = (rest: string[], input?: string) =>
    run([api.kubectl, '--kubeconfig', api.kubeconfig, ...rest], input === undefined ? {} : { input })
  const nodes = nodeNames.map((name) => ({
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, labels: { 'kubernetes.io/hostname': name, 'kubernetes.io/os': 'linux' } },
    status: { capacity, allocatable: capacity },
  }))
  // To validate, kubectl would read the schemas of all kinds, which takes longer than its deadline on a busy machine.
  const list = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: nodes })
  const tainted = () => kubectl(['get', 'nodes', '-o', 'jsonpath={.items[*].spec.taints[*].key}'])
  const stop = async () => {
    for (const child of children) {
      if (child.exitCode !== null || child.signalCode !== null) continue
      const ended = once(child, 'exit')
      child.kill('SIGKILL')
      await ended
    }
  }
  try {
    await kubectl(['create', '--validate=false', '-f', '-'], list)
    await until(
      async () => (await tainted()) === '',
      () => delay(1000),
      { deadlineMs: 300_000 },
    )
  } catch (error) {
    await stop()
    throw error
  }
  return { stop }
}

import { describe, expect, it } from 'vitest'
import type { Domain } from '../api/domain/domain.ts'
import type { Placement } from '../api/placement.ts'
import type { Volume } from '../api/volume.ts'
import { storedVm } from '../test/stored-vm.ts'
import { volumeOfEachKind } from '../test/volumes.ts'
import { claimsOf, launcherPod, podName } from './launcher-pod.ts'
import type { Claim } from './pod.ts'

const uid = 'a1b2c3d4-0000-4000-8000-000000000001'
const { spec } = storedVm()
const podOf = (over: Parameters<typeof storedVm>[0] = {}, claims: ReadonlyMap<string, Claim> = new Map()) =>
  launcherPod(storedVm(over), { image: 'launcher:1', claims })
const withVolume = (volume: Volume, claim: Claim = { metadata: { name: 'c' } }) => {
  const pod = podOf({ spec: { ...spec, volumes: [volume] } }, new Map([['c', claim]]))
  const [container] = pod.spec.containers
  return {
    volumes: pod.spec.volumes.slice(4),
    mounts: container?.volumeMounts.slice(5),
    devices: container?.volumeDevices,
  }
}

const block = (claim: Claim['spec']): Claim => ({ metadata: { name: 'c' }, spec: { volumeMode: 'Block', ...claim } })

const http = { url: 'https://example.com/disk', checksum: 'sha256:00' }

describe('launcher pod', () => {
  it('selects nodes whose CPU has what the VM requires, beside those that the VM selects', () => {
    const domain: Domain = { ...spec.domain, type: 'kvm', cpu: { mode: 'host-model', features: [{ name: 'aes' }] } }
    expect(podOf({ spec: { ...spec, domain, nodeSelector: { zone: 'a' } } }).spec.nodeSelector).toEqual({
      zone: 'a',
      'cpu-feature.virtset.io/aes': 'true',
    })
  })

  it('is this, and nothing more', () => {
    expect(podOf()).toEqual({
      metadata: {
        name: 'virt-launcher-vm1-a1b2c3d4',
        namespace: 'default',
        labels: { 'virtset.io/vm-uid': uid, 'virtset.io/vm-name': 'vm1' },
        annotations: { 'virtset.io/labels': '{}' },
        ownerReferences: [
          {
            apiVersion: 'virtset.io/v1alpha1',
            kind: 'VirtualMachine',
            name: 'vm1',
            uid,
            controller: true,
            blockOwnerDeletion: true,
          },
        ],
      },
      spec: {
        restartPolicy: 'Never',
        automountServiceAccountToken: false,
        enableServiceLinks: false,
        terminationGracePeriodSeconds: 60,
        securityContext: {
          runAsUser: 107,
          runAsGroup: 107,
          fsGroup: 107,
          runAsNonRoot: true,
          seccompProfile: { type: 'RuntimeDefault' },
        },
        containers: [
          {
            name: 'compute',
            image: 'launcher:1',
            imagePullPolicy: 'IfNotPresent',
            terminationMessagePolicy: 'FallbackToLogsOnError',
            env: [{ name: 'VIRTSET_VM_UID', value: uid }],
            // 64 MiB for the guest, 90 + 80 + 8 around it, and a 512th of the guest's.
            resources: { requests: { cpu: '100m', memory: '268582912' }, limits: { memory: '268582912' } },
            securityContext: {
              allowPrivilegeEscalation: false,
              capabilities: { drop: ['ALL'] },
              readOnlyRootFilesystem: true,
            },
            volumeMounts: [
              { name: 'sockets', mountPath: '/var/run/virtset/sockets' },
              { name: 'private', mountPath: '/var/run/virtset/private' },
              { name: 'run', mountPath: '/var/run/virtset/private/run' },
              { name: 'tmp', mountPath: '/tmp' },
              { name: 'tmp', mountPath: '/run/lock' },
            ],
            volumeDevices: [],
          },
        ],
        volumes: [
          { name: 'sockets', emptyDir: { sizeLimit: '16777216' } },
          { name: 'private', emptyDir: { sizeLimit: '536870912' } },
          { name: 'run', emptyDir: { medium: 'Memory', sizeLimit: '16777216' } },
          { name: 'tmp', emptyDir: { sizeLimit: '16777216' } },
        ],
      },
    })
  })

  it.each<[string, Partial<typeof spec.domain>, number]>([
    ['of its guest', { onCrash: 'coredump-restart' }, 64],
    ['that its watchdog requests', { devices: { watchdogs: [{ model: 'i6300esb', action: 'dump' }] } }, 64],
    ['that its guest does not cause', { onCrash: 'restart' }, 0],
  ])('has room for one dump %s', (_name, over, mebibytes) => {
    const { volumes } = podOf({ spec: { domain: { ...spec.domain, ...over } } }).spec
    expect(volumes[1]).toEqual({ name: 'private', emptyDir: { sizeLimit: String((512 + mebibytes) * 2 ** 20) } })
  })

  it('limits what each directory takes of the disk of the node', () => {
    const volumes = podOf({ spec: { ...spec, volumes: volumeOfEachKind } }).spec.volumes
    expect(volumes.filter(({ emptyDir }) => emptyDir !== undefined && JSON.stringify(emptyDir) === '{}')).toEqual([])
  })

  it('has each field of the VM that is for the pod', () => {
    const placement: Required<Omit<Placement, 'terminationGracePeriodSeconds'>> = {
      nodeSelector: { zone: 'a' },
      affinity: { podAntiAffinity: {} },
      tolerations: [{ operator: 'Exists' }],
      priorityClassName: 'high',
      imagePullSecrets: [{ name: 'registry' }],
    }
    const inPod = { ...placement, resourceClaims: [{ name: 'gpus', resourceClaimTemplateName: 'gpus' }] }
    expect(podOf({ spec: { ...spec, ...inPod, terminationGracePeriodSeconds: 0 } }).spec).toMatchObject({
      ...inPod,
      terminationGracePeriodSeconds: 30,
    })
  })

  it('of type kvm requests the device', () => {
    const { containers } = podOf({ spec: { domain: { ...spec.domain, type: 'kvm' } } }).spec
    expect(containers[0]?.resources).toMatchObject({
      requests: { 'devices.virtset.io/kvm': '1' },
      limits: { 'devices.virtset.io/kvm': '1' },
    })
  })

  it.each<[string, Volume, Claim | undefined, ReturnType<typeof withVolume>]>([
    [
      'an empty disk with space for the file system',
      { name: 'data', emptyDisk: { capacity: '1Gi' } },
      undefined,
      {
        volumes: [{ name: 'volume-0', emptyDir: { sizeLimit: String(2 ** 30 + 2 ** 24) } }],
        mounts: [{ name: 'volume-0', mountPath: '/var/run/virtset/volumes/data' }],
        devices: [],
      },
    ],
    [
      'cloud-init, made by the launcher',
      { name: 'seed', cloudInit: { userData: '#cloud-config' } },
      undefined,
      {
        volumes: [{ name: 'volume-0', emptyDir: { sizeLimit: String(2 ** 24) } }],
        mounts: [{ name: 'volume-0', mountPath: '/var/run/virtset/volumes/seed' }],
        devices: [],
      },
    ],
    [
      'a Secret of cloud-init, which the kubelet mounts, in memory',
      { name: 'seed', cloudInit: { userDataSecretRef: { name: 'vm.web', key: 'user' } } },
      undefined,
      {
        volumes: [
          { name: 'volume-0', emptyDir: { medium: 'Memory', sizeLimit: String(6 * 2 ** 20) } },
          {
            name: 'source-0',
            projected: {
              defaultMode: 0o440,
              sources: [{ secret: { name: 'vm.web', items: [{ key: 'user', path: 'user-data' }] } }],
            },
          },
        ],
        mounts: [
          { name: 'volume-0', mountPath: '/var/run/virtset/volumes/seed' },
          { name: 'source-0', mountPath: '/var/run/virtset/sources/seed', readOnly: true },
        ],
        devices: [],
      },
    ],
    [
      'an image, with space for the changes of the guest',
      { name: 'root', image: { reference: 'debian:13', pullPolicy: 'Always', capacity: '100Gi' } },
      undefined,
      {
        volumes: [
          { name: 'volume-0', emptyDir: { sizeLimit: String(102 * 2 ** 30 + 2 ** 26) } },
          { name: 'image-0', image: { reference: 'debian:13', pullPolicy: 'Always' } },
        ],
        mounts: [
          { name: 'volume-0', mountPath: '/var/run/virtset/volumes/root' },
          { name: 'image-0', mountPath: '/var/run/virtset/images/root', readOnly: true },
        ],
        devices: [],
      },
    ],
    [
      'an image of unknown size',
      { name: 'root', image: { reference: 'debian:13', path: 'disk/a' } },
      undefined,
      {
        volumes: [
          { name: 'volume-0', emptyDir: { sizeLimit: '17590575431' } },
          { name: 'image-0', image: { reference: 'debian:13' } },
        ],
        mounts: [
          { name: 'volume-0', mountPath: '/var/run/virtset/volumes/root' },
          { name: 'image-0', mountPath: '/var/run/virtset/images/root', readOnly: true },
        ],
        devices: [],
      },
    ],
    [
      'a claim with a file system',
      { name: 'data', persistentVolumeClaim: { claimName: 'c', readOnly: true } },
      { metadata: { name: 'c' }, spec: { volumeMode: 'Filesystem' } },
      {
        volumes: [{ name: 'volume-0', persistentVolumeClaim: { claimName: 'c', readOnly: true } }],
        mounts: [{ name: 'volume-0', mountPath: '/var/run/virtset/volumes/data', readOnly: true }],
        devices: [],
      },
    ],
    [
      'a claim that is filled from a web server',
      { name: 'data', persistentVolumeClaim: { claimName: 'c', source: { http } } },
      { metadata: { name: 'c' } },
      {
        volumes: [
          { name: 'volume-0', persistentVolumeClaim: { claimName: 'c' } },
          { name: 'source-0', emptyDir: { sizeLimit: '16777216' } },
        ],
        mounts: [
          { name: 'volume-0', mountPath: '/var/run/virtset/volumes/data' },
          { name: 'source-0', mountPath: '/var/run/virtset/sources/data' },
        ],
        devices: [],
      },
    ],
    [
      'a block volume that is filled from a web server',
      { name: 'data', persistentVolumeClaim: { claimName: 'c', source: { http } } },
      block({ resources: { requests: { storage: '16Gi' } } }),
      {
        volumes: [
          { name: 'volume-0', persistentVolumeClaim: { claimName: 'c' } },
          { name: 'source-0', emptyDir: { sizeLimit: String(17 * 2 ** 30 + 2 ** 26) } },
        ],
        mounts: [{ name: 'source-0', mountPath: '/var/run/virtset/sources/data' }],
        devices: [{ name: 'volume-0', devicePath: '/var/run/virtset/block/data' }],
      },
    ],
    [
      'a bound block volume that is filled from a web server',
      { name: 'data', persistentVolumeClaim: { claimName: 'c', source: { http } } },
      { ...block({ resources: { requests: { storage: '1Gi' } } }), status: { capacity: { storage: '16Gi' } } },
      {
        volumes: [
          { name: 'volume-0', persistentVolumeClaim: { claimName: 'c' } },
          { name: 'source-0', emptyDir: { sizeLimit: String(17 * 2 ** 30 + 2 ** 26) } },
        ],
        mounts: [{ name: 'source-0', mountPath: '/var/run/virtset/sources/data' }],
        devices: [{ name: 'volume-0', devicePath: '/var/run/virtset/block/data' }],
      },
    ],
    [
      'a claim that was filled from a web server',
      { name: 'data', persistentVolumeClaim: { claimName: 'c', source: { http } } },
      { metadata: { name: 'c', annotations: { 'virtset.io/filled': '2026-01-01T00:00:00Z' } } },
      {
        volumes: [{ name: 'volume-0', persistentVolumeClaim: { claimName: 'c' } }],
        mounts: [{ name: 'volume-0', mountPath: '/var/run/virtset/volumes/data' }],
        devices: [],
      },
    ],
    [
      'a claim of a block device',
      { name: 'data', persistentVolumeClaim: { claimName: 'c' } },
      { metadata: { name: 'c' }, spec: { volumeMode: 'Block' } },
      {
        volumes: [{ name: 'volume-0', persistentVolumeClaim: { claimName: 'c' } }],
        mounts: [],
        devices: [{ name: 'volume-0', devicePath: '/var/run/virtset/block/data' }],
      },
    ],
  ])('has %s', (_name, volume, claim, placed) => {
    expect(withVolume(volume, claim)).toEqual(placed)
  })

  it('has a source and a mount for each kind of volume', () => {
    for (const volume of volumeOfEachKind) {
      const { volumes, mounts } = withVolume(volume)
      expect(mounts?.map(({ name }) => name)).toEqual(volumes.map(({ name }) => name))
      expect(volumes).not.toEqual([])
    }
  })

  it('requests the storage that empty disks and disks of images can take, as far as it is known', () => {
    const volumes: readonly Volume[] = [
      { name: 'a', image: { reference: 'x', capacity: '100Gi' } },
      { name: 'b', image: { reference: 'x' } },
      { name: 'c', emptyDisk: { capacity: '1Gi' } },
    ]
    const { containers } = podOf({ spec: { ...spec, volumes } }).spec
    expect(containers[0]?.resources.requests['ephemeral-storage']).toBe(String(103 * 2 ** 30 + 2 * 2 ** 26 + 2 ** 24))
  })

  it('reads each claim once', () => {
    const claim = (name: string, claimName: string): Volume => ({ name, persistentVolumeClaim: { claimName } })
    const volumes = [claim('a', 'x'), claim('b', 'x'), { name: 'c', cloudInit: {} }, claim('d', 'y')]
    expect(claimsOf(storedVm({ spec: { ...spec, volumes } }))).toEqual(['x', 'y'])
  })
})

describe('ports', () => {
  const withPorts = (given: Pick<typeof spec, 'ports' | 'domain'>) => podOf({ spec: { ...spec, ...given } }).spec
  const forwards = (start: number | string) => ({
    domain: { ...spec.domain, devices: { interfaces: [{ portForwards: [{ ranges: [{ start }] }] }] } },
  })

  it('are those of the container', () => {
    const ports = [{ name: 'web', port: 8080 } as const, { name: 'dns', port: 5353, protocol: 'UDP' } as const]
    expect(withPorts({ ...forwards(8080), ports }).containers[0]?.ports).toEqual([
      { name: 'web', containerPort: 8080, protocol: 'TCP' },
      { name: 'dns', containerPort: 5353, protocol: 'UDP' },
    ])
  })

  it('are probed as the VM states', () => {
    const readinessProbe = { httpGet: { port: 'web', path: '/healthz' }, periodSeconds: 5 }
    expect(podOf({ spec: { ...spec, readinessProbe } }).spec.containers[0]?.readinessProbe).toEqual(readinessProbe)
    expect(podOf().spec.containers[0]).not.toHaveProperty('readinessProbe')
    const livenessProbe = { tcpSocket: { port: 80 }, failureThreshold: 5 }
    expect(podOf({ spec: { ...spec, livenessProbe } }).spec.containers[0]?.livenessProbe).toEqual(livenessProbe)
    expect(podOf().spec.containers[0]).not.toHaveProperty('livenessProbe')
    const startupProbe = { httpGet: { port: 'web' }, failureThreshold: 100 }
    expect(podOf({ spec: { ...spec, startupProbe } }).spec.containers[0]?.startupProbe).toEqual(startupProbe)
  })

  it('run the commands of probes in the guest, which the launcher knows and times', () => {
    const exec = { command: ['/usr/bin/is-ready', '--now'] }
    const probes = {
      readinessProbe: { exec, periodSeconds: 5 },
      livenessProbe: { exec, timeoutSeconds: 10 },
      startupProbe: { exec, timeoutSeconds: 2 ** 31 - 1 },
    }
    expect(podOf({ spec: { ...spec, ...probes } }).spec.containers[0]).toMatchObject({
      readinessProbe: {
        exec: { command: ['/usr/local/bin/guest-probe', 'readinessProbe'] },
        periodSeconds: 5,
        timeoutSeconds: 3,
      },
      livenessProbe: { exec: { command: ['/usr/local/bin/guest-probe', 'livenessProbe'] }, timeoutSeconds: 12 },
      startupProbe: { timeoutSeconds: 2 ** 31 - 1 },
    })
  })

  it.each([
    [80, [{ name: 'net.ipv4.ip_unprivileged_port_start', value: '0' }]],
    ['0x50', [{ name: 'net.ipv4.ip_unprivileged_port_start', value: '0' }]],
    [1024, undefined],
  ])('%s: the pod may listen on it', (start, sysctls) => {
    const { securityContext } = withPorts(forwards(start))
    expect(Object.entries(securityContext ?? {}).find(([key]) => key === 'sysctls')?.[1]).toEqual(sysctls)
  })
})

describe('with taps in networks', () => {
  const tapped = (dev: string, digit: number) =>
    ({
      type: 'ethernet',
      target: { dev, managed: false },
      mac: { address: `52:54:00:00:00:0${digit}` },
    }) as const
  const key = 'k8s.v1.cni.cncf.io/networks'
  const domain = { ...spec.domain, devices: { interfaces: [tapped('tap0', 0), tapped('tap1', 1), tapped('tapb', 2)] } }
  const taps = [
    { dev: 'tap0', plugin: 'routed' },
    { dev: 'tap1', plugin: 'redirect', network: 'lab' },
    { dev: 'tapb', plugin: 'redirect', network: 'infra/storage' },
    { dev: 'tap9', plugin: 'redirect', network: 'unused' },
  ]

  it('names them to Multus, and nothing that the VM annotates', () => {
    const annotations = { [key]: 'infra/other', 'v1.multus-cni.io/default-network': 'infra/other' }
    const pod = podOf({ spec: { ...spec, domain, taps }, metadata: { annotations } })
    expect(Object.keys(pod.metadata.annotations ?? {})).toEqual(['virtset.io/labels', key])
    expect(JSON.parse(pod.metadata.annotations?.[key] ?? '')).toEqual([
      { namespace: 'default', name: 'lab', interface: 'net1', mac: '52:54:00:00:00:01' },
      { namespace: 'infra', name: 'storage', interface: 'netb', mac: '52:54:00:00:00:02' },
    ])
  })

  it('has no annotation for them without them', () => {
    expect(podOf({ spec: { ...spec, domain, taps: taps.slice(0, 1) } }).metadata.annotations).not.toHaveProperty(key)
  })
})

describe('its name', () => {
  it.each([
    ['vm1', 'virt-launcher-vm1-a1b2c3d4'],
    ['a'.repeat(253), `virt-launcher-${'a'.repeat(40)}-a1b2c3d4`],
    [`${'a'.repeat(39)}.b`, `virt-launcher-${'a'.repeat(39)}-a1b2c3d4`],
  ])('of %s is %s: never longer than a host name', (name, expected) => {
    const found = podName(storedVm({ metadata: { name } }))
    expect(found).toBe(expected)
    expect(found.length).toBeLessThanOrEqual(63)
  })

  it('has a file system of each size of huge pages', () => {
    const domain = { ...spec.domain, memoryBacking: { hugepages: { pages: [{ size: 1, unit: 'GiB' }] } } }
    const pod = podOf({ spec: { ...spec, domain } })
    const [container] = pod.spec.containers
    expect([pod.spec.volumes.at(-1), container?.volumeMounts.at(-1), container?.resources.limits]).toEqual([
      { name: 'hugepages-1gi', emptyDir: { medium: 'HugePages-1Gi' } },
      { name: 'hugepages-1gi', mountPath: '/var/run/virtset/hugepages/1Gi' },
      expect.objectContaining({ 'hugepages-1Gi': `${64 * 2 ** 20}` }),
    ])
  })

  it('has the labels of its VM, except those that identify the VM', () => {
    const labels = { app: 'web', 'virtset.io/vm-name': 'other', 'virtset.io/vm-uid': 'other' }
    expect(podOf({ metadata: { labels } }).metadata.labels).toEqual({
      app: 'web',
      'virtset.io/vm-uid': uid,
      'virtset.io/vm-name': 'vm1',
    })
    expect(podOf({ metadata: { labels } }).metadata.annotations).toEqual({ 'virtset.io/labels': '{"app":"web"}' })
  })

  it('of a VM with a long name is shortened in the label too', () => {
    const { labels } = podOf({ metadata: { name: `${'a'.repeat(62)}.b` } }).metadata
    expect(labels?.['virtset.io/vm-name']).toBe('a'.repeat(62))
  })
})

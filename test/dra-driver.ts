import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Server, ServerCredentials, type sendUnaryData, type ServerUnaryCall } from '@grpc/grpc-js'
import { loadService } from '../handler/device-plugin/protocol.ts'

/** The device that a driver has for a claim: what its ResourceSlice calls it, and its attributes. */
export interface ClaimedDevice {
  readonly request: string
  readonly pool: string
  readonly name: string
  readonly attributes: object
}

export interface DraDriver {
  /** Resolves once the kubelet has registered the driver. @throws its refusal */
  readonly registered: Promise<void>
  stop(): Promise<void>
}

interface Claim {
  readonly namespace: string
  readonly uid: string
  readonly name: string
}

/** Where containerd reads what a device adds to a container. */
const cdiDirectory = '/var/run/cdi'
const inContainer = '/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates'

const registration = loadService(
  join(import.meta.dirname, 'plugin-registration.proto'),
  'pluginregistration.Registration',
)
const plugin = loadService(join(import.meta.dirname, 'dra.proto'), 'k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin')

/**
 * A driver for Dynamic Resource Allocation on a node of this host. What a container gets of a device is a file that
 * describes it, as Kubernetes' library for drivers writes it (https://kep.k8s.io/5304).
 * @param options `directory`: the kubelet's `plugins_registry`; `podClaim`: the name that pods give to their claims of a
 *   template; `prepare`: returns the device for the next claim
 */
export async function startDraDriver(options: {
  readonly name: string
  readonly directory: string
  readonly podClaim: string
  readonly prepare: () => ClaimedDevice
}): Promise<DraDriver> {
  const { name, directory, podClaim, prepare } = options
  const socket = join(directory, `${name}.sock`)
  const descriptions = await mkdtemp(join(tmpdir(), 'dra-'))
  const specOf = (uid: string) => join(cdiDirectory, `${name}-${uid}.json`)
  const specs = new Set<string>()

  const prepareClaim = async (claim: Claim) => {
    const { request, ...device } = prepare()
    const description = {
      apiVersion: 'metadata.resource.k8s.io/v1alpha1',
      kind: 'DeviceMetadata',
      metadata: { ...claim, generation: 1 },
      podClaimName: podClaim,
      requests: [{ name: request, devices: [{ driver: name, ...device }] }],
    }
    const hostPath = join(descriptions, claim.uid)
    await writeFile(hostPath, `${JSON.stringify(description, null, 2)}\n`)
    const containerPath = join(inContainer, podClaim, request, `${name}-metadata.json`)
    const containerEdits = { mounts: [{ hostPath, containerPath, options: ['ro', 'bind'] }] }
    const kind = `${name}/metadata`
    const spec = { cdiVersion: '0.5.0', kind, devices: [{ name: claim.uid, containerEdits }] }
    await mkdir(cdiDirectory, { recursive: true })
    specs.add(specOf(claim.uid))
    await writeFile(specOf(claim.uid), JSON.stringify(spec))
    const ids = [`${kind}=${claim.uid}`]
    return {
      devices: [{ requestNames: [request], poolName: device.pool, deviceName: device.name, cdiDeviceIds: ids }],
    }
  }

  /** Responds for each claim. */
  const forEach =
    (perform: (claim: Claim) => Promise<object>) =>
    (call: ServerUnaryCall<{ readonly claims: readonly Claim[] }, object>, respond: sendUnaryData<object>): void => {
      const results = call.request.claims.map(async (claim) => [claim.uid, await perform(claim)] as const)
      Promise.all(results).then(
        (claims) => respond(null, { claims: Object.fromEntries(claims) }),
        (error: unknown) => respond({ details: String(error) }),
      )
    }

  const registered = Promise.withResolvers<void>()
  const server = new Server()
  server.addService(registration, {
    // Without an endpoint, the kubelet uses the same socket for the claims.
    getInfo: (_: unknown, respond: sendUnaryData<object>) =>
      respond(null, { type: 'DRAPlugin', name, supportedVersions: ['v1.DRAPlugin'] }),
    notifyRegistrationStatus(
      { request }: ServerUnaryCall<{ readonly pluginRegistered: boolean; readonly error: string }, object>,
      respond: sendUnaryData<object>,
    ) {
      if (request.pluginRegistered) registered.resolve()
      else registered.reject(new Error(request.error))
      respond(null, {})
    },
  })
  server.addService(plugin, {
    nodePrepareResources: forEach(prepareClaim),
    nodeUnprepareResources: forEach(async ({ uid }) => {
      await rm(specOf(uid), { force: true })
      return {}
    }),
  })
  await rm(socket, { force: true })
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) =>
      error === null ? resolve() : reject(error),
    )
  })
  return {
    registered: registered.promise,
    async stop() {
      server.forceShutdown()
      await rm(socket, { force: true })
      for (const spec of specs) await rm(spec, { force: true })
      await rm(descriptions, { recursive: true })
    },
  }
}

import { chmod, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import {
  Server,
  ServerCredentials,
  status,
  type ServerUnaryCall,
  type ServerWritableStream,
  type sendUnaryData,
} from '@grpc/grpc-js'
import {
  devicePluginService,
  type AllocateRequest,
  type AllocateResponse,
  type ContainerAllocation,
  type DeviceList,
  type PluginOptions,
} from './protocol.ts'

/** The kubelet needs neither, since all devices of a resource are equal. */
export const pluginOptions: PluginOptions = { preStartRequired: false, getPreferredAllocationAvailable: false }

/** An `AllocateRequest` lists the ids of devices, which are short. */
const maxRequestBytes = 256 * 1024
/** The kubelet sends few requests at once. */
const maxConcurrentRequests = 32

/** Serves one resource to the kubelet. */
export interface Plugin {
  readonly resourceName: string
  /** The socket's name in the directory of device plugins. */
  readonly endpoint: string
  /** Whether the kubelet receives the list of devices. */
  isWatched(): boolean
  /** Whether the socket still exists: a kubelet that starts removes it. */
  isListening(): Promise<boolean>
  /** Serves on a new socket, and ends the requests of the previous one. */
  listen(): Promise<void>
  setHealthy(isHealthy: boolean): void
  stop(): Promise<void>
}

/**
 * @param options `name`: distinguishes the socket and the devices; `directory`: the kubelet's directory of device
 *   plugins; `count`: the number of containers that can have the device at once; `allocate`: returns what each of these
 *   containers gets
 */
export function createPlugin(options: {
  readonly resourceName: string
  readonly name: string
  readonly directory: string
  readonly count: number
  readonly allocate: () => Promise<ContainerAllocation>
}): Plugin {
  const { resourceName, name, directory, count, allocate } = options
  const endpoint = `virtset-${name}.sock`
  const socket = join(directory, endpoint)
  let isHealthy = true
  let server: Server | undefined
  /** The kubelet has one. A new one replaces it, so that none accumulates. */
  let watcher: ServerWritableStream<object, DeviceList> | undefined

  const devices = (): DeviceList => ({
    devices: Array.from({ length: count }, (_, index) => ({
      ID: `${name}-${index}`,
      health: isHealthy ? 'Healthy' : 'Unhealthy',
    })),
  })

  const close = () => {
    watcher?.end()
    watcher = undefined
    // Also removes the socket.
    server?.forceShutdown()
    server = undefined
  }

  const implementation = {
    getDevicePluginOptions: (_: unknown, respond: sendUnaryData<PluginOptions>) => respond(null, pluginOptions),
    listAndWatch(call: ServerWritableStream<object, DeviceList>) {
      watcher?.end()
      watcher = call
      const forget = () => {
        if (watcher === call) watcher = undefined
      }
      for (const event of ['cancelled', 'close', 'error']) call.once(event, forget)
      call.write(devices())
    },
    allocate(call: ServerUnaryCall<AllocateRequest, AllocateResponse>, respond: sendUnaryData<AllocateResponse>) {
      const { containerRequests } = call.request
      allocate().then(
        (allocation) => respond(null, { containerResponses: containerRequests.map(() => allocation) }),
        (error: unknown) => respond({ code: status.UNAVAILABLE, details: String(error) }),
      )
    },
  }

  return {
    resourceName,
    endpoint,
    isWatched: () => watcher !== undefined,
    isListening: async () => server !== undefined && (await exists(socket)),
    async listen() {
      close()
      await rm(socket, { force: true })
      const started = new Server({
        'grpc.max_receive_message_length': maxRequestBytes,
        'grpc.max_concurrent_streams': maxConcurrentRequests,
      })
      started.addService(devicePluginService, implementation)
      await new Promise<void>((resolve, reject) => {
        started.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) =>
          error === null ? resolve() : reject(error),
        )
      })
      server = started
      await chmod(socket, 0o600)
    },
    setHealthy(now) {
      if (now === isHealthy) return
      isHealthy = now
      watcher?.write(devices())
    },
    async stop() {
      close()
      await rm(socket, { force: true })
    },
  }
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )

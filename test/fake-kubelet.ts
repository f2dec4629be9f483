import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import {
  Client,
  credentials,
  Server,
  ServerCredentials,
  type ClientReadableStream,
  type sendUnaryData,
  type ServerUnaryCall,
} from '@grpc/grpc-js'
import type { MethodDefinition } from '@grpc/proto-loader'
import {
  devicePluginService,
  registrationService,
  type DeviceList,
  type RegisterRequest,
} from '../handler/device-plugin/protocol.ts'

/** The kubelet's side of the device plugin API, on real sockets. */
export interface FakeKubelet {
  readonly registrations: RegisterRequest[]
  /** The last list of devices of each resource. A resource whose plugin has gone has none. */
  readonly lists: Map<string, DeviceList>
  /** Ends the stream of a resource, as a kubelet does that no longer trusts the plugin. */
  hangUp(resourceName: string): void
  /** Asks a plugin, by its socket. */
  call(endpoint: string, method: string, request: object): Promise<unknown>
  stop(): Promise<void>
}

/** Removes what an earlier kubelet and its plugins left, as a kubelet does, and listens. */
export async function startFakeKubelet(directory: string): Promise<FakeKubelet> {
  const registrations: RegisterRequest[] = []
  const lists = new Map<string, DeviceList>()
  const clients = new Set<Client>()
  const streams = new Map<string, ClientReadableStream<DeviceList>>()
  const clientOf = (endpoint: string): Client => {
    const client = new Client(`unix:${join(directory, endpoint)}`, credentials.createInsecure())
    clients.add(client)
    return client
  }

  const watch = ({ resourceName, endpoint }: RegisterRequest): void => {
    const { path, requestSerialize, responseDeserialize } = methodOf('ListAndWatch')
    const deserialize = (bytes: Buffer): DeviceList => ({ devices: [], ...responseDeserialize(bytes) })
    const stream = clientOf(endpoint).makeServerStreamRequest(path, requestSerialize, deserialize, {})
    streams.set(resourceName, stream)
    const isCurrent = () => streams.get(resourceName) === stream
    stream.on('data', (list: DeviceList) => isCurrent() && lists.set(resourceName, list))
    stream.on('error', () => isCurrent() && lists.delete(resourceName))
    stream.on('end', () => isCurrent() && lists.delete(resourceName))
  }

  const socket = join(directory, 'kubelet.sock')
  await rm(socket, { force: true })
  const server = new Server()
  server.addService(registrationService, {
    register(call: ServerUnaryCall<RegisterRequest, object>, respond: sendUnaryData<object>) {
      registrations.push(call.request)
      watch(call.request)
      respond(null, {})
    },
  })
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) =>
      error === null ? resolve() : reject(error),
    )
  })

  return {
    registrations,
    lists,
    hangUp: (resourceName) => streams.get(resourceName)?.cancel(),
    call(endpoint, method, request) {
      const { path, requestSerialize, responseDeserialize } = methodOf(method)
      return new Promise((resolve, reject) => {
        clientOf(endpoint).makeUnaryRequest(path, requestSerialize, responseDeserialize, request, (error, response) =>
          error === null ? resolve(response) : reject(error),
        )
      })
    },
    async stop() {
      for (const stream of streams.values()) stream.cancel()
      for (const client of clients) client.close()
      server.forceShutdown()
      await rm(socket, { force: true })
    },
  }
}

function methodOf(name: string): MethodDefinition<object, object> {
  const method = devicePluginService[name]
  if (method === undefined) throw new Error(`v1beta1.proto has no method ${name}`)
  return method
}

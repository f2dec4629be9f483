import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Client, credentials } from '@grpc/grpc-js'
import { pluginOptions, type Plugin } from './plugin.ts'
import { registrationService, version, type RegisterRequest } from './protocol.ts'

/** The kubelet connects to the plugin before it responds. */
const deadlineMs = 10_000

const socketOf = (directory: string): string => join(directory, 'kubelet.sock')

/** Identifies the kubelet that listens: each start creates a new socket. Undefined while there is none. */
export async function readKubelet(directory: string): Promise<string | undefined> {
  try {
    const { ino, ctimeNs } = await stat(socketOf(directory), { bigint: true })
    return `${ino} ${ctimeNs}`
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}

/** @throws the kubelet's refusal, or DEADLINE_EXCEEDED */
export async function register(directory: string, { resourceName, endpoint }: Plugin): Promise<void> {
  const { Register: method } = registrationService
  if (method === undefined) throw new Error('v1beta1.proto has no method Register')
  const request: RegisterRequest = { version, endpoint, resourceName, options: pluginOptions }
  const client = new Client(`unix:${socketOf(directory)}`, credentials.createInsecure(), {
    'grpc.enable_http_proxy': 0,
  })
  try {
    await new Promise<void>((resolve, reject) => {
      const { path, requestSerialize, responseDeserialize } = method
      client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        request,
        { deadline: Date.now() + deadlineMs },
        (error) => (error === null ? resolve() : reject(error)),
      )
    })
  } finally {
    client.close()
  }
}

import { text } from 'node:stream/consumers'
import { request } from 'node:http'
import type { Socket } from 'node:net'
import { parseJson } from '../runtime/launcher-api.ts'

export interface Answer {
  readonly status: number
  readonly body: unknown
}

/** Sends a request to a launcher's socket; `body` is sent as JSON, or unchanged if it is text. */
export function ask(socketPath: string, method: string, path: string, body?: unknown): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = request({ socketPath, method, path }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, body: parseJson(Buffer.concat(chunks).toString()) }),
      )
    })
    asked.on('error', reject)
    asked.end(body === undefined || typeof body === 'string' ? body : JSON.stringify(body))
  })
}

/** Upgrades `GET /console`; see `openSession`. */
export const openConsole = (socketPath: string): Promise<Socket> => openSession(socketPath, '/console', 'console')

/** Upgrades a GET and returns the socket; rejects with the status and the reason if it was refused. */
export function openSession(socketPath: string, path: string, upgrade = 'virtset'): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const headers = { connection: 'Upgrade', upgrade }
    const asked = request({ socketPath, method: 'GET', path, headers })
    asked.on('upgrade', (_, socket, head) => {
      socket.unshift(head)
      resolve(socket)
    })
    asked.on('response', (response) => {
      const { statusCode } = response
      text(response).then((body) => reject(new Error(`refused with ${statusCode}: ${body}`)), reject)
    })
    asked.on('error', reject)
    asked.end()
  })
}

import { statusOf, type ReceivedCause } from '../api/received-status.ts'

/** Why a request failed, as the page shows it. */
export interface Failure {
  readonly message: string
  readonly causes: readonly ReceivedCause[]
}

/** A refusal of the API server, with every cause. */
export class Refused extends Error {
  readonly status: number
  readonly causes: readonly ReceivedCause[]
  constructor(status: number, message: string, causes: readonly ReceivedCause[] = []) {
    super(message)
    this.status = status
    this.causes = causes
  }
}

/** @param body a Status, or any other text */
export function refusedBy(status: number, body: string): Refused {
  try {
    const parsed = JSON.parse(body)
    if (typeof parsed.message === 'string') {
      const { message, details } = statusOf(status, parsed)
      return new Refused(status, message, details?.causes)
    }
  } catch {
    // It is not JSON.
  }
  return new Refused(status, body.trim() === '' ? `HTTP ${status}` : body)
}

export const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** The message of a single cause already contains it; with several, the message has only the first. */
export function failureOf(error: unknown): Failure {
  const causes = error instanceof Refused && error.causes.length > 1 ? error.causes : []
  return { message: textOf(error), causes }
}

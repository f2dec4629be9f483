import { useEffect, useState } from 'preact/hooks'
import { request } from './api.ts'

/** What the user wants to do, in the terms of RBAC. */
export interface Access {
  readonly verb: string
  readonly group: string
  readonly resource: string
  readonly subresource?: string
  readonly namespace?: string
  readonly name?: string
}

const freshMs = 60_000
/** Rows that are scrolled past are gone before. */
const patienceMs = 200
const known = new Map<string, { readonly atMs: number; readonly result: Promise<boolean> }>()

/**
 * Whether the user may, as the API server states it; undefined until it has answered. Asks for all names first, so that
 * a list needs one request, and for the own name only if that is refused.
 */
export function useAllowed(access: Access): boolean | undefined {
  const [allowed, setAllowed] = useState<boolean>()
  const key = JSON.stringify(access)
  useEffect(() => {
    let isStopped = false
    let timer: ReturnType<typeof setTimeout> | undefined
    const { name, ...all } = access
    const settle = (isAllowed: boolean) => {
      if (!isStopped) setAllowed(isAllowed)
    }
    void mayAccess(all).then((isAllowed) => {
      if (isAllowed || name === undefined || isStopped) return settle(isAllowed)
      timer = setTimeout(() => void mayAccess(access).then(settle), patienceMs)
    })
    return () => {
      isStopped = true
      clearTimeout(timer)
    }
  }, [key])
  return allowed
}

function mayAccess(access: Access): Promise<boolean> {
  const key = JSON.stringify(access)
  const nowMs = Date.now()
  const before = known.get(key)
  if (before !== undefined && nowMs - before.atMs < freshMs) return before.result
  // Without an answer, the button is offered, and the API server decides.
  const result = review(access).catch(() => true)
  known.set(key, { atMs: nowMs, result })
  return result
}

async function review(resourceAttributes: Access): Promise<boolean> {
  const answer = await request('POST', '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', {
    body: {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SelfSubjectAccessReview',
      spec: { resourceAttributes },
    },
  })
  return (answer as { readonly status?: { readonly allowed?: boolean } }).status?.allowed === true
}

/** Why a button is disabled. */
export const missingPermission = ({ verb, group, resource, subresource }: Access): string =>
  `you need the permission to ${verb} ${resource}${subresource === undefined ? '' : `/${subresource}`} of ${group}`

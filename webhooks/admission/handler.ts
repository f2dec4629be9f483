import type { AdmissionHandler, AdmissionOptions, Turn } from '../admission-routes.ts'
import { isObjectKind, type ObjectHandlers } from '../objects/handlers.ts'
import { config } from './config.ts'
import type { Engine } from './engine.ts'
import { group } from './group.ts'
import { refuse, unlessTooDeep, type Handle, type KindHandler, type Trust } from './kind.ts'
import type { NetworkWarnings } from './network-warnings.ts'
import { noPermissions, type Permissions } from './permission.ts'
import { preset } from './preset.ts'
import type { AdmissionRequest, AdmissionResult } from './request.ts'
import { virtualMachine } from './virtual-machine.ts'

const kinds: ReadonlyMap<string, KindHandler> = new Map([
  ['VirtualMachine', virtualMachine],
  ['VirtualMachineConfig', config],
  ['VirtualMachineGroup', group],
  ['VirtualMachinePreset', preset],
  ['ClusterVirtualMachinePreset', preset],
])

const unsupported: Handle = ({ kind: value }) =>
  refuse([
    {
      rule: 'kind',
      field: 'kind',
      value,
      reason: 'FieldValueNotSupported',
      message: `must be one of ${[...kinds.keys()].join(', ')}`,
      suggestion: 'check the rules of the webhook configurations',
    },
  ])

const handlerOf = ({ kind }: AdmissionRequest): KindHandler =>
  kinds.get(kind) ?? { mutate: unsupported, validate: unsupported }

/** Handles `POST /mutate`. */
export const mutate = (
  request: AdmissionRequest,
  engine: Engine,
  trust: Trust,
  permissions = noPermissions,
): AdmissionResult => unlessTooDeep(request) ?? handlerOf(request).mutate(request, engine, trust, permissions)

/** Handles `POST /validate`. */
export const validate = (
  request: AdmissionRequest,
  engine: Engine,
  trust: Trust,
  permissions = noPermissions,
): AdmissionResult => unlessTooDeep(request) ?? handlerOf(request).validate(request, engine, trust, permissions)

/**
 * Both webhooks, sharing one engine, and those for objects of other APIs if there are any. A request is handled at
 * once, unless it has to wait for a pending preset, permissions or its turn. Whatever reads the object takes a turn: it
 * can have megabytes, and many requests can have waited for the same preset.
 */
export function createHandlers(
  engine: Engine,
  trust: Trust,
  objects?: ObjectHandlers,
  networkWarnings: NetworkWarnings = () => undefined,
): Pick<AdmissionOptions, 'mutate' | 'validate' | 'objects'> {
  const authorized =
    (handle: typeof mutate): AdmissionHandler =>
    (request, turn, signal) => {
      const handleWith = (granted: Permissions) => handle(request, engine, trust, granted)
      const authorize = () => {
        const permissions = engine.permissions(request, signal)
        if (permissions === undefined) return handleWith(noPermissions)
        return permissions.then((granted) => inTurn(turn, () => handleWith(granted)))
      }
      const ready = handlerOf(request).appliesPresets?.(request) ? engine.ready(request.namespace) : undefined
      return ready === undefined ? inTurn(turn, authorize) : ready.then(() => inTurn(turn, authorize))
    }
  /** No webhook runs after this one, so an allowed preset is stored unchanged. */
  const validateAndExpect: typeof mutate = (request, ...rest) => {
    const result = validate(request, ...rest)
    if (result.allowed) engine.expectPreset(request)
    return result
  }
  const validateOwn = authorized(validateAndExpect)
  const authorizedMutate = authorized(mutate)
  const mutateOwn: AdmissionHandler = (request, turn, signal) => {
    const result = authorizedMutate(request, turn, signal)
    // Nobody reads the warnings of virtset itself.
    if (trust.controllers.includes(request.user.username)) return result
    const warned = (given: AdmissionResult) => withNetworkWarnings(given, request, networkWarnings, signal)
    return result instanceof Promise ? result.then(warned) : warned(result)
  }
  if (objects === undefined) return { mutate: mutateOwn, validate: validateOwn }
  return {
    mutate: (request, ...rest) =>
      isObjectKind(request.kind) ? objects.mutate(request, ...rest) : mutateOwn(request, ...rest),
    validate: (request, ...rest) =>
      isObjectKind(request.kind) ? objects.validate(request, ...rest) : validateOwn(request, ...rest),
    objects: objects.complete,
  }
}

function withNetworkWarnings(
  result: AdmissionResult,
  request: AdmissionRequest,
  networkWarnings: NetworkWarnings,
  signal: AbortSignal | undefined,
): AdmissionResult | Promise<AdmissionResult> {
  const more = result.allowed && result.vm !== undefined ? networkWarnings(result.vm, request, signal) : undefined
  return more?.then((warnings) => ({ ...result, warnings: [...(result.warnings ?? []), ...warnings] })) ?? result
}

/** Takes a turn only for the work itself: a request that waits for the API server does not block others. */
function inTurn(
  turn: Turn | undefined,
  handle: () => AdmissionResult | Promise<AdmissionResult>,
): AdmissionResult | Promise<AdmissionResult> {
  const waiting = turn?.()
  return waiting === undefined ? handle() : waiting.then(handle)
}

/**
 * Accounts that may write what users must not: virtset's controller; the webhooks, whose subresources start and stop
 * the VMs of configs; and Kubernetes' garbage collector, which removes owners when it orphans objects, under either
 * name that it may run as.
 */
export const trustedAccounts = (namespace: string): readonly string[] => [
  ...ownAccounts(namespace),
  'system:serviceaccount:kube-system:generic-garbage-collector',
  'system:kube-controller-manager',
]

export const ownAccounts = (namespace: string): readonly string[] => [
  `system:serviceaccount:${namespace}:virtset-controller`,
  `system:serviceaccount:${namespace}:virtset-webhooks`,
]

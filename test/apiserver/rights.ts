import { readFileSync } from 'node:fs'
import { parseAllDocuments } from 'yaml'

/** A permission that a role of virtset grants to an account. */
export interface Right {
  /** e.g. `virtset-controller`. */
  readonly account: string
  readonly group: string
  /** With its subresource: `virtualmachines/status`. */
  readonly resource: string
  readonly verb: string
  /** Absent: of every name. */
  readonly names?: readonly string[]
}

interface Role {
  readonly kind: string
  readonly metadata: { readonly name: string }
  readonly rules?: readonly {
    readonly apiGroups: readonly string[]
    readonly resources: readonly string[]
    readonly verbs: readonly string[]
    readonly resourceNames?: readonly string[]
  }[]
}

/** The permissions of a manifest's roles; each role has the name of the account to which it is bound. */
export function rightsOf(manifest: string): Right[] {
  return parseAllDocuments(readFileSync(manifest, 'utf8'))
    .map((document): Role => document.toJS())
    .filter(({ kind }) => kind === 'ClusterRole' || kind === 'Role')
    .flatMap(({ metadata, rules = [] }) =>
      rules.flatMap(({ apiGroups, resources, verbs, resourceNames: names }) =>
        apiGroups.flatMap((group) =>
          resources.flatMap((resource) =>
            verbs.map((verb) => ({
              account: metadata.name,
              group,
              resource,
              verb,
              ...(names === undefined ? {} : { names }),
            })),
          ),
        ),
      ),
    )
}

/** A request of an account in the API server's audit log. */
export interface AuditedRequest {
  readonly account: string
  readonly verb: string
  readonly group: string
  readonly resource: string
  readonly name?: string
  /** Roles and admission policies allowed it. */
  readonly isAllowed: boolean
}

interface AuditEvent {
  readonly verb: string
  readonly user: { readonly username: string }
  readonly objectRef?: {
    readonly apiGroup?: string
    readonly resource?: string
    readonly subresource?: string
    readonly name?: string
  }
  readonly annotations?: { readonly [key: string]: string }
  readonly responseStatus?: { readonly message?: string }
}

const prefix = 'system:serviceaccount:virtset-system:'

/** All requests of virtset's accounts, except those for non-resource paths. */
export function readAudit(file: string): AuditedRequest[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line): AuditEvent => JSON.parse(line))
    .filter(({ user, objectRef }) => user.username.startsWith(prefix) && objectRef?.resource !== undefined)
    .map(({ verb, user, objectRef = {}, annotations = {}, responseStatus = {} }) => {
      const { apiGroup = '', resource = '', subresource, name } = objectRef
      const isDenied = responseStatus.message?.includes('ValidatingAdmissionPolicy') === true
      return {
        account: user.username.slice(prefix.length),
        verb,
        group: apiGroup,
        resource: subresource === undefined ? resource : `${resource}/${subresource}`,
        ...(name === undefined ? {} : { name }),
        isAllowed: annotations['authorization.k8s.io/decision'] === 'allow' && !isDenied,
      }
    })
}

export const textOf = ({ account, verb, group, resource, names }: Right): string =>
  `${account}: ${verb} ${resource}${group === '' ? '' : `.${group}`}${names === undefined ? '' : ` ${names.join(',')}`}`

/** Whether the account has used the permission. */
export const isUsed = (right: Right, asked: readonly AuditedRequest[]): boolean =>
  asked.some(
    ({ account, verb, group, resource, name, isAllowed }) =>
      isAllowed &&
      account === right.account &&
      verb === right.verb &&
      group === right.group &&
      resource === right.resource &&
      (right.names === undefined || (name !== undefined && right.names.includes(name))),
  )

import { readFileSync } from 'node:fs'
import { parseAllDocuments } from 'yaml'

/** One right that a role of virtset's gives to an account. */
export interface Right {
  /** e.g. `virtset-controller`. */
  readonly account: string
  readonly group: string
  /** With its sub-resource: `virtualmachines/status`. */
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

/** What the roles of a manifest give; each is called like the account that it is bound to. */
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

/** A request that an account sent, by the API server's audit log. */
export interface Asked {
  readonly account: string
  readonly verb: string
  readonly group: string
  readonly resource: string
  readonly name?: string
  /** Neither roles nor admission policies refused it. */
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

/** All that virtset's accounts asked for, but for paths that are no resource. */
export function readAudit(file: string): Asked[] {
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

/** Whether the account has done what the right is for. */
export const isUsed = (right: Right, asked: readonly Asked[]): boolean =>
  asked.some(
    ({ account, verb, group, resource, name, isAllowed }) =>
      isAllowed &&
      account === right.account &&
      verb === right.verb &&
      group === right.group &&
      resource === right.resource &&
      (right.names === undefined || (name !== undefined && right.names.includes(name))),
  )

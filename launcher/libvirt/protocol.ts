import protocol from './protocol.json' with { type: 'json' }
import { type Fields, type Structs, type Value, decode, encode } from './xdr.ts'

/**
 * The part of libvirt's RPC protocol that a launcher uses, as a table of numbers, field order and wire types from
 * libvirt's published protocol. Each row was tested on libvirt 9.0 and 11.3. To use another procedure, add a row.
 */
type Procedures = typeof protocol.procedures

export type ProcedureName = keyof Procedures
export type Arguments<P extends ProcedureName> = { readonly [A in keyof Procedures[P]['args']]: Value }
export type Reply<P extends ProcedureName> = { readonly [R in keyof Procedures[P]['ret']]: Value }

export const program = protocol.program
/** That of procedures that only libvirt's driver for QEMU has. */
export const qemuProgram = protocol.qemuProgram
export const keepalive = protocol.keepalive
export const version = protocol.version
export const errorCodes = protocol.errors
export const structs: Structs = protocol.structs

export interface Procedure {
  readonly name: string
  /** `program` or `qemuProgram`. */
  readonly program: number
  readonly number: number
  readonly args: Fields
  readonly ret: Fields
}

export interface EventKind {
  readonly name: string
  /** The argument of `connect_domain_event_callback_register_any`. */
  readonly id: number
  /** The procedure number of its messages. */
  readonly procedure: number
  readonly message: Fields
}

const procedureTable: {
  readonly [name: string]: { program?: number; number: number; args: object; ret: object }
} = protocol.procedures

const procedures = new Map<string, Procedure>(
  Object.entries(procedureTable).map(([name, row]) => [
    name,
    { name, program: row.program ?? program, number: row.number, args: fieldsOf(row.args), ret: fieldsOf(row.ret) },
  ]),
)

export const eventKinds: readonly EventKind[] = Object.entries(protocol.events).map(([name, row]) => ({
  name,
  id: row.id,
  procedure: row.procedure,
  message: fieldsOf(row.message),
}))

export function procedure(name: string): Procedure {
  const found = procedures.get(name)
  if (found === undefined) throw new Error(`no such procedure: ${name}`)
  return found
}

/** For the side that replies. */
export function procedureByNumber(number: number, ofProgram: number): Procedure | undefined {
  return [...procedures.values()].find((one) => one.number === number && one.program === ofProgram)
}

export function encodeFields(fields: Fields, value: { readonly [field: string]: Value }): Buffer {
  return encode(fields, value, structs)
}

export function decodeFields(fields: Fields, bytes: Uint8Array): { [field: string]: Value } {
  return decode(fields, bytes, structs)
}

/** The payload of a REPLY or STREAM packet whose status is ERROR. */
export const errorFields: Fields = protocol.structs.error

/**
 * A domain's state and its reason, as libvirt's names in lower camel case. A number that is newer than this table is
 * returned as a number.
 */
export function stateNames(state: number, reason: number): { state: string; reason: string } {
  const row = protocol.states[state]
  return { state: row?.name ?? String(state), reason: row?.reasons[reason] ?? String(reason) }
}

function fieldsOf(row: object): Fields {
  return Object.fromEntries(Object.entries(row).map(([field, type]) => [field, String(type)]))
}

import type { Cause } from './cause.ts'
import { invalidValue } from './field-error.ts'
import type { LabelSelector } from './object.ts'

/** Kubernetes' syntax for names, label keys and label values (k8s.io/apimachinery/pkg/util/validation). */
const dnsLabel = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/
const qualifiedPart = /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/

export const isDnsLabel = (text: string): boolean => dnsLabel.test(text)

/** As in Kubernetes, a part may be longer than 63 characters. */
export const isDnsSubdomain = (text: string): boolean =>
  text.length <= 253 && text.split('.').every((part) => /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(part))

/** `name` or `prefix/name`: the syntax for keys of labels, annotations and node selectors. */
export function isQualifiedName(text: string): boolean {
  const slash = text.indexOf('/')
  if (slash === -1) return qualifiedPart.test(text)
  return isDnsSubdomain(text.slice(0, slash)) && qualifiedPart.test(text.slice(slash + 1))
}

export const isLabelValue = (text: string): boolean => text === '' || qualifiedPart.test(text)

/** The prefix of a key, '' if it has none: `virtset.io` of `virtset.io/vm-uid`. */
export const keyPrefix = (key: string): string => key.slice(0, Math.max(0, key.indexOf('/')))

/** The first `length` characters, without punctuation at the end, which label values and DNS names do not allow. */
export const cutName = (name: string, length: number): string => name.slice(0, length).replace(/[-._]+$/, '')

export const qualifiedNameRule =
  'must be letters, digits, `-`, `_` and `.`, at most 63 and beginning and ending with a letter or digit, ' +
  'with an optional DNS name and `/` before it'
export const labelValueRule =
  'must be empty, or at most 63 letters, digits, `-`, `_` and `.`, beginning and ending with a letter or digit'
export const dnsLabelRule =
  'must be at most 63 lower-case letters, digits and `-`, beginning and ending with a letter or digit'
export const dnsSubdomainRule =
  'must be at most 253 lower-case letters, digits, `-` and `.`, each part beginning and ending with a letter or digit'

/** A cause for every key and value of `labels` that the API server would refuse on a pod or node. */
export function checkLabels(labels: { readonly [key: string]: string }, field: string): Cause[] {
  return Object.entries(labels).flatMap(([key, value]) => [
    ...(isQualifiedName(key) ? [] : [invalidValue('label-key', `${field}[${key}]`, key, qualifiedNameRule)]),
    ...(isLabelValue(value) ? [] : [invalidValue('label-value', `${field}[${key}]`, value, labelValueRule)]),
  ])
}

/** Checks a label selector that matches its schema. */
export function checkSelector(selector: LabelSelector, field: string): Cause[] {
  const causes = checkLabels(selector.matchLabels ?? {}, `${field}.matchLabels`)
  for (const [index, { key, operator, values = [] }] of (selector.matchExpressions ?? []).entries()) {
    const at = `${field}.matchExpressions[${index}]`
    if (!isQualifiedName(key)) causes.push(invalidValue('label-key', `${at}.key`, key, qualifiedNameRule))
    const takesValues = operator === 'In' || operator === 'NotIn'
    if (takesValues && values.length === 0) {
      const message = `must name at least one value, since operator is ${operator}`
      causes.push({ rule: 'selector-values', field: `${at}.values`, reason: 'FieldValueRequired', message })
    }
    if (!takesValues && values.length > 0) {
      const message = `must not be set for operator ${operator}`
      causes.push({ rule: 'selector-values', field: `${at}.values`, reason: 'FieldValueForbidden', message })
    }
    for (const [position, value] of values.entries()) {
      if (!isLabelValue(value))
        causes.push(invalidValue('label-value', `${at}.values[${position}]`, value, labelValueRule))
    }
  }
  return causes
}

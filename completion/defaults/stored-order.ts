import { orders } from '../../api/domain/order.ts'

/** Items of a list in libvirt's order, each with its index in the stored list. Only those that are wanted. */
export const inLibvirtOrder = <T>(
  path: string,
  items: readonly T[],
  isWanted: (item: T) => boolean = () => true,
): readonly { readonly item: T; readonly index: number }[] => {
  if (!items.some(isWanted)) return []
  const places = new Map(items.map((item, index) => [item, index]))
  const sort = orders[path]
  // Sorting returns the same items.
  const sorted = sort && items.length > 1 ? (sort(items) as T[]) : items
  return sorted.filter(isWanted).map((item) => ({ item, index: places.get(item) ?? -1 }))
}

// The sign of the console: the head of a borzoi.
export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" width="32" height="32" aria-hidden="true">
      <rect width="32" height="32" rx="7" class="mark-ground" />
      <path class="mark-head" d="M4.500 20.500 15 13.200c1.600-1.100 2.600-2.900 3.200-5.200.3-1 1.600-1.200 2.100-.3l1.500 2.600c3.300 1.500 5.200 4.300 5.200 8.200V27h-4.800c.4-3.300-.7-5.500-3.400-6.300-3.300-.9-6.300.2-9.300 1.700-1.700.8-3.400 1-4.700.4-.9-.4-1-1.700-.3-2.300Z" />
      <circle class="mark-ground" cx="18.900" cy="14.600" r="1.050" />
    </svg>
  );
}
